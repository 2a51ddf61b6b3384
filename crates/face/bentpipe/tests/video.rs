//! `bentpipe video` as its users meet it. ffmpeg makes and judges what goes through.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use bentpipe_testkit::{Folder, has, run, skip};

/// Runs `bentpipe` in a folder with these words.
fn bentpipe(folder: &Folder, words: &str) -> Output {
    run(env!("CARGO_BIN_EXE_bentpipe"), folder, &words.split(' ').collect::<Vec<_>>())
}

/// Returns what it prints on standard output if it succeeds.
fn said(folder: &Folder, words: &str) -> String {
    let output = bentpipe(folder, words);
    bentpipe_testkit::said(&output, 0);
    String::from_utf8(output.stdout).expect("text")
}

/// The number in the line that begins with `what`.
fn value(text: &str, what: &str) -> f64 {
    let line = text.lines().find(|line| line.trim_start().starts_with(what));
    let line = line.unwrap_or_else(|| panic!("no line {what} in\n{text}"));
    line.trim_start()[what.len()..].split_whitespace().next().and_then(|n| n.parse().ok()).expect("a number")
}

/// A folder with a small test card.
fn folder_with(card: &str) -> Folder {
    let folder = Folder::new();
    said(&folder, &format!("video card --width 320 --height 240 --length 2s --rate 2Mbit/s {card}"));
    folder
}

#[test]
fn a_clean_link_gives_the_file_back() {
    if !has("ffmpeg") {
        return;
    }
    let folder = folder_with("card.ts");
    let card = fs::read(folder.path().join("card.ts")).expect("a card");
    for adaptation in ["aal5", "aal1", "aal1-fec"] {
        let shown = said(&folder, &format!("video carry card.ts out.ts --adaptation {adaptation} --quality"));
        assert_eq!(fs::read(folder.path().join("out.ts")).expect("written"), card, "{adaptation}");
        assert_eq!((value(&shown, "pictures lost"), value(&shown, "PSNR of the luma")), (0.0, 100.0));
        assert_eq!(value(&shown, "pictures of the original"), 50.0);
    }
}

#[test]
fn what_is_cut_from_a_file_is_said() {
    if !has("ffmpeg") {
        return;
    }
    let folder = folder_with("card.ts");
    let card = fs::read(folder.path().join("card.ts")).expect("a card");
    fs::write(folder.path().join("cut.ts"), &card[..100_001]).expect("written");
    let output = bentpipe(&folder, "video carry cut.ts out.ts");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        said.contains("cut.ts: 100,001 bytes, 99,828 used, 173 left out: 173 bytes outside packets"),
        "{said}"
    );
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(fs::read(folder.path().join("out.ts")).expect("written") == card[..531 * 188]);
}

#[test]
fn lost_cells_are_seen_unless_they_are_repaired() {
    if !has("ffmpeg") {
        return;
    }
    let folder = folder_with("card.ts");
    let psnr = |options: &str| {
        let shown = said(&folder, &format!("video carry card.ts out.ts {options} --quality"));
        value(&shown, "PSNR of the luma")
    };
    let (few, many) = (psnr("--loss 1e-3"), psnr("--loss 3e-2"));
    assert!(few < 60.0 && many < few, "{few} dB, {many} dB");
    assert_eq!(psnr("--loss 1e-3 --adaptation aal1-fec"), 100.0);
    // The same seed loses the same cells.
    assert_eq!(psnr("--loss 1e-3"), few);
    let apart = said(&folder, "video quality card.ts out.ts");
    assert_eq!(value(&apart, "PSNR of the luma"), few);
}

#[test]
fn two_eyes_in_one_stream_come_apart_bit_by_bit() {
    if !has("ffmpeg") {
        return;
    }
    let folder = folder_with("--eyes 2 both.ts");
    said(&folder, "video demux both.ts left.ts right.ts");
    said(&folder, "video mux left.ts right.ts again.ts");
    said(&folder, "video carry again.ts received.ts");
    said(&folder, "video demux received.ts left2.ts right2.ts");
    let file = |name: &str| fs::read(folder.path().join(name)).expect(name);
    assert!(file("left.ts") == file("left2.ts") && file("right.ts") == file("right2.ts"));
    assert!(file("left.ts") != file("right.ts") && file("left.ts").len() > 200_000);
    // Somebody else's demultiplexer sees two programmes and decodes both.
    let output = Command::new("ffprobe").arg(folder.path().join("both.ts")).output().expect("ffprobe");
    let seen = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(seen.contains("Program 1") && seen.contains("Program 2"), "{seen}");
    assert_eq!(seen.matches("Video: mpeg2video").count(), 2, "{seen}");
    let quality = said(&folder, "video quality --programme 2 both.ts received.ts");
    assert_eq!((value(&quality, "pictures identical"), value(&quality, "pictures lost")), (50.0, 0.0));
    // Each programme's own tables travel along, and are none of the multiplex.
    let inspected = said(&folder, "ts inspect both.ts");
    assert_eq!((inspected.matches(" PMT ").count(), inspected.matches(" MPEG-1/2 video ").count()), (4, 2));
    said(&folder, "ts mux --rate 12Mbit/s both.ts more.ts");
    said(&folder, "video demux more.ts left3.ts right3.ts");
    for (sent, received) in [("left.ts", "left3.ts"), ("right.ts", "right3.ts")] {
        // Clock references are stamped for the slots of the greater multiplex.
        assert_eq!(file(sent).len(), file(received).len());
        let quality = said(&folder, &format!("video quality {sent} {received}"));
        assert_eq!(value(&quality, "pictures identical"), 50.0);
    }
}

/// Both eyes in one picture, through one encoder and one stream: each is judged by itself, and they are not the same.
#[test]
fn two_eyes_in_one_picture_are_judged_one_by_one() {
    if !has("ffmpeg") {
        return;
    }
    for frame in ["side-by-side", "top-and-bottom"] {
        let folder = folder_with(&format!(
            "--eyes 2 --frame {frame} --source left.mkv --source-right right.mkv both.ts"
        ));
        let clean = said(&folder, &format!("video quality --frame {frame} both.ts both.ts"));
        for eye in ["left eye", "right eye"] {
            assert_eq!(value(&clean, &format!("{eye}: pictures identical")), 50.0, "{clean}");
        }
        assert_eq!(value(&clean, "frames of sound lost"), 0.0);
        // Half of the columns or lines, and coding, cost the same for both.
        let sources = "--source left.mkv --source-right right.mkv";
        let coded = said(&folder, &format!("video quality --frame {frame} {sources} both.ts both.ts"));
        let [left, right] =
            ["left", "right"].map(|eye| value(&coded, &format!("{eye} eye: PSNR of the luma")));
        assert!((15.0..40.0).contains(&left) && (left - right).abs() < 1.0, "{frame}: {left} {right}");
        // The other eye is a shifted picture.
        let sources = "--source right.mkv --source-right left.mkv";
        let swapped = said(&folder, &format!("video quality --frame {frame} {sources} both.ts both.ts"));
        let other = value(&swapped, "left eye: PSNR of the luma");
        assert!(other < left - 3.0, "{frame}: {left} dB, with the other eye {other} dB");
        // Losses hit both, as they share the slices of one picture, and each has its own figure.
        said(&folder, "video carry both.ts received.ts --loss 3e-3");
        let lossy = said(&folder, &format!("video quality --frame {frame} both.ts received.ts"));
        let damaged = ["left", "right"].map(|eye| value(&lossy, &format!("{eye} eye: PSNR of the luma")));
        assert!(damaged.iter().all(|psnr| *psnr < 60.0) && damaged[0] != damaged[1], "{frame}: {damaged:?}");
        // Taken apart and put together by hand.
        said(&folder, &format!("video unpack --frame {frame} both.ts left2.mkv right2.mkv"));
        said(&folder, &format!("video pack --frame {frame} --rate 4Mbit/s left2.mkv right2.mkv again.ts"));
        let again = said(&folder, &format!("video quality --frame {frame} both.ts again.ts"));
        assert!(value(&again, "right eye: PSNR of the luma") > 28.0, "{again}");
    }
    let folder = folder_with("card.ts");
    for (words, expected) in [
        ("video card --frame side-by-side x.ts", "--frame: expected none, or `eyes` of 2"),
        ("video card --eyes 2 --width 322 --frame side-by-side x.ts", "a multiple of 4 pixels"),
        ("video quality --source-right card.ts card.ts card.ts", "--source-right: expected with --frame"),
        ("video card --source-right r.mkv x.ts", "--source-right: expected with --eyes 2"),
    ] {
        let output = bentpipe(&folder, words);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && said.contains(expected), "{words}: {said}");
    }
}

/// Returns a folder with an ffmpeg that has libvmaf: that of the Python package imageio-ffmpeg.
fn ffmpeg_with_vmaf() -> Option<Folder> {
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../target/python/bin/python");
    let path = "import imageio_ffmpeg; print(imageio_ffmpeg.get_ffmpeg_exe(), end='')";
    let found =
        Command::new(python).args(["-c", path]).output().ok().filter(|output| output.status.success());
    let Some(found) = found else {
        skip("no Python with imageio-ffmpeg");
        return None;
    };
    let folder = Folder::new();
    let program = String::from_utf8(found.stdout).expect("a path");
    std::os::unix::fs::symlink(program, folder.path().join("ffmpeg")).expect("a link");
    Some(folder)
}

#[test]
fn vmaf_is_of_whole_pictures_and_of_each_eye() {
    if !has("ffmpeg") {
        return;
    }
    let Some(programs) = ffmpeg_with_vmaf() else { return };
    let folder =
        folder_with("--eyes 2 --frame side-by-side --source left.mkv --source-right right.mkv both.ts");
    said(&folder, "video carry both.ts received.ts --loss 3e-3");
    let quality = |words: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_bentpipe"));
        command.args(["video", "quality"]).args(words.split(' ')).current_dir(folder.path());
        let output = command.env("PATH", programs.path()).output().expect("runs");
        bentpipe_testkit::said(&output, 0);
        String::from_utf8(output.stdout).expect("text")
    };
    let of = |text: &str, eye: &str| value(text, &format!("{eye}VMAF, mean"));
    let [clean, lossy] = ["both.ts", "received.ts"].map(|name| of(&quality(&format!("both.ts {name}")), ""));
    assert!(clean > 97.0 && lossy < clean - 1.0, "{clean} {lossy}");
    let eyes = |text: &str| ["left eye: ", "right eye: "].map(|eye| of(text, eye));
    let [left, right] = eyes(&quality("--frame side-by-side both.ts received.ts"));
    // Two halves of the same pictures: their mean is about that of the whole, and they are not the same.
    assert!(left != right && ((left + right) / 2.0 - lossy).abs() < 5.0, "{left} {right} {lossy}");
    let coded = "--frame side-by-side --source left.mkv --source-right right.mkv both.ts both.ts";
    let swapped = "--frame side-by-side --source right.mkv --source-right left.mkv both.ts both.ts";
    let ([left, _], [other, _]) = (eyes(&quality(coded)), eyes(&quality(swapped)));
    assert!(left < 97.0 && other < left - 5.0, "{left} {other}");
}

#[test]
fn what_is_not_there_is_not_called_lost() {
    if !has("ffmpeg") {
        return;
    }
    let folder = folder_with("card.ts");
    for (received, why) in [("missing.ts", "missing.ts: No such file"), (".", ".: is a directory")] {
        let output = bentpipe(&folder, &format!("video quality card.ts {received}"));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && said.contains(why), "{received}: {said}");
    }
    // Of a link that lost everything nothing can be decoded: a result, and said.
    fs::write(folder.path().join("empty.ts"), "").expect("written");
    let output = bentpipe(&folder, "video quality card.ts empty.ts");
    let note = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(note.contains("empty.ts: no picture could be decoded"), "{note}");
    assert_eq!(value(&String::from_utf8_lossy(&output.stdout), "pictures lost"), 50.0);
}

#[test]
fn options_are_said_of_whatever_flow_has_the_stream() {
    let folder = Folder::new();
    let scenario = |stream: &str| {
        let text = format!(
            "title = \"t\"\nduration = \"1 h\"\nnode.a = {{}}\nnode.b = {{}}\n\
             [atm.line.sky]\nbetween = [\"a\", \"b\"]\nrate = \"149.76 Mbit/s\"\n\
             [link.sky]\nbetween = [\"a\", \"b\"]\nmedium = \"vc\"\n\
             [flow.tv]\nfrom = \"a\"\nto = \"b\"\n{stream}\n"
        );
        fs::write(folder.path().join("tv.toml"), text).expect("written");
    };
    let refused = |options: &str, why: &str| {
        let output = bentpipe(&folder, &format!("video carry card.ts out.ts --scenario tv.toml {options}"));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && said.contains(why), "{options}: {said}");
    };
    scenario("traffic = { kind = \"stream\", adaptation = \"aal1\" }");
    refused("--deliver-errored", "--deliver-errored: expected with AAL5 only");
    refused("--set flow.television.traffic.ts_packets=3", "no flow is called \"television\"");
    scenario("traffic = { kind = \"stream\", adaptation = \"aal5\" }");
    refused("--adaptation aal1 --ts-packets 2", "--ts-packets: expected with AAL5 only");
    scenario("traffic = \"tcp\"");
    refused("--adaptation aal1", "flow: no flow is a \"stream\": expected one");
    if has("ffmpeg") {
        let made = folder_with("card.ts");
        fs::copy(made.path().join("card.ts"), folder.path().join("card.ts")).expect("copied");
        scenario("traffic = { kind = \"stream\", adaptation = \"aal5\" }");
        let shown = said(&folder, "video carry card.ts out.ts --scenario tv.toml --adaptation aal1");
        assert_eq!(value(&shown, "cells lost, by their numbers"), 0.0);
    }
}

#[test]
fn somebody_elses_multiplex_is_taken_apart() {
    if !has("ffmpeg") {
        return;
    }
    let folder = folder_with("card.ts");
    let path = |name: &str| folder.path().join(name);
    let mut ffmpeg = Command::new("ffmpeg");
    ffmpeg.args(["-loglevel", "error", "-i"]).arg(path("card.ts")).arg("-i").arg(path("card.ts"));
    ffmpeg
        .args("-map 0 -map 1 -c copy -program st=0:st=1 -program st=2:st=3 -muxrate 6M -f mpegts".split(' '));
    assert!(ffmpeg.arg(path("two.ts")).status().expect("ffmpeg").success());
    said(&folder, "video demux two.ts first.ts second.ts");
    for name in ["first.ts", "second.ts"] {
        let quality = said(&folder, &format!("video quality card.ts {name}"));
        // Another multiplexer starts the clock elsewhere: pictures have other times, but all are there.
        assert_eq!(value(&quality, "pictures of the original"), 50.0);
        let output = Command::new("ffprobe").arg(path(name)).output().expect("ffprobe");
        let seen = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(seen.matches("Video: mpeg2video").count(), 1, "{seen}");
    }
}

#[test]
fn without_ffmpeg_it_says_what_is_missing() {
    let folder = Folder::new();
    let mut command = Command::new(env!("CARGO_BIN_EXE_bentpipe"));
    let command = command.args(["video", "card", "card.ts"]).current_dir(folder.path()).env("PATH", "");
    let output = command.output().expect("the program");
    assert_eq!(output.status.code(), Some(2));
    let why = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(why.contains("ffmpeg does not start") && why.contains("apt-get install ffmpeg"), "{why}");
}

#[test]
fn what_is_no_stream_is_refused() {
    let folder = Folder::new();
    fs::write(folder.path().join("noise.ts"), [7; 5000]).expect("written");
    for (words, why) in [
        ("video carry noise.ts out.ts", "noise.ts: neither TS packets nor baseband frames"),
        (
            "video carry --adaptation aal1 --ts-packets 2 noise.ts out.ts",
            "--ts-packets: expected with AAL5 only",
        ),
        (
            "video carry --adaptation aal1-fec --deliver-errored noise.ts out.ts",
            "--deliver-errored: expected with",
        ),
        ("video mux missing.ts out.ts", "missing.ts: "),
        ("video card --rate 1kbit/s card.ts", "--rate: expected from"),
        ("video card --width 321 card.ts", "--width: expected an even number"),
    ] {
        let output = bentpipe(&folder, words);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && said.contains(why), "{words}: {said}");
    }
}

/// Presentation and decoding times of the video packets of a file, by ffprobe.
fn stamps(folder: &Folder, name: &str) -> Vec<[i64; 2]> {
    let words = ["-v", "error", "-select_streams", "v", "-show_entries", "packet=pts,dts", "-of", "json"];
    let output =
        Command::new("ffprobe").args(words).arg(folder.path().join(name)).output().expect("ffprobe runs");
    let all: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let ticks = |packet: &serde_json::Value| ["pts", "dts"].map(|key| packet[key].as_i64().unwrap_or(-1));
    all["packets"].as_array().expect("packets").iter().map(ticks).collect()
}

#[test]
fn modelled_streams_have_the_times_that_ffprobe_shows() {
    if !has("ffprobe") {
        return;
    }
    let folder = Folder::new();
    fs::write(folder.path().join("sizes.csv"), "I,20000\nB,3000\nB,3000\nP,9000\nB,3000\nB,3000\n")
        .expect("written");
    said(&folder, "video model --length 4s video.ts");
    said(&folder, "video model --length 4s --sizes sizes.csv table.ts");
    said(&folder, "video model --length 4s --sizes video.ts again.ts");
    for (name, least) in [("video.ts", 95), ("table.ts", 100), ("again.ts", 100)] {
        let found = stamps(&folder, name);
        assert!((least..=100).contains(&found.len()), "{name}: {}", found.len());
        assert!(found.windows(2).all(|pair| pair[1][1] - pair[0][1] == 3600), "{name}: {found:?}");
        let waits: Vec<i64> = found.iter().map(|[pts, dts]| (pts - dts) / 3600).collect();
        assert!(waits.iter().all(|wait| [0, 3].contains(wait)), "{name}: {waits:?}");
        let start = waits.iter().position(|wait| *wait == 3).expect("an I or P picture");
        assert_eq!(waits[start..start + 6], [3, 0, 0, 3, 0, 0], "{name}");
        let shown = said(&folder, &format!("ts inspect --measure --json {name}.json {name}"));
        assert!(shown.contains("\"Modelled video\" of \"bentpipe\""), "{shown}");
        let all = fs::read(folder.path().join(format!("{name}.json"))).expect("JSON");
        let all: serde_json::Value = serde_json::from_slice(&all).expect("JSON");
        let video = &all["tr_101_290"]["time_stamps"][0];
        assert_eq!((&video["late"], &video["jumps"]), (&0.into(), &0.into()), "{video}");
        // Decoded two intervals behind its first packet.
        let delay = video["decoder_delay_max_s"].as_f64().expect("a delay");
        assert!((delay - 0.08).abs() < 1e-3, "{name}: {delay}");
        for item in ["1.3.a", "1.4", "1.5.a", "1.6", "2.2", "2.3a", "2.3b", "2.5"] {
            let indicators = all["tr_101_290"]["indicators"].as_array().expect("indicators");
            let of = indicators.iter().find(|of| of["item"] == item).expect("an indicator");
            assert_eq!(of["errors"], 0, "{name}: {of}");
        }
    }
    fs::write(folder.path().join("wrong.csv"), "I,20000\nQ,5\n").expect("written");
    let output = bentpipe(&folder, "video model --sizes wrong.csv out.ts");
    let text = String::from_utf8(output.stderr).expect("text");
    assert!(
        output.status.code() == Some(2) && text.contains("wrong.csv: line 2: expected a type and bytes"),
        "{text}"
    );
}
