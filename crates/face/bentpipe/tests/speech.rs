//! `bentpipe voice carry` as its users meet it: real speech by espeak-ng, codecs by ffmpeg, judged by PESQ.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use bentpipe_testkit::{Folder, has, run, said, skip};
use bentpipe_voice::speech::g711::Law;
use bentpipe_wire::wav;

/// Scenario without voice.
const QUIET: &str = r#"
title = "No voice"
duration = "1 s"
[node.a]
[node.b]
[link.line]
between = ["a", "b"]
rate = "1 Mbit/s"
[flow.ping]
from = "a"
to = "b"
traffic = "ping"
"#;

/// Sentences of the Harvard lists.
const TEXT: &str = "The birch canoe slid on the smooth planks. Glue the sheet to the dark blue background.";

fn bentpipe(folder: &Folder, words: &str) -> Output {
    run(env!("CARGO_BIN_EXE_bentpipe"), folder, &words.split(' ').collect::<Vec<_>>())
}

/// Returns the rows of the table that it prints: the words of each line.
fn rows(output: &Output) -> Vec<Vec<String>> {
    said(output, 0);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let number = |line: &&str| line.trim_start().starts_with(|first: char| first.is_ascii_digit());
    let words = |line: &str| {
        line.split("  ").map(str::trim).filter(|word| !word.is_empty()).map(str::to_owned).collect()
    };
    text.lines().filter(number).map(words).collect()
}

/// Returns a value of a row, from the end: 0 is PESQ, behind which is ViSQOL.
fn value(row: &[String], from_end: usize) -> f64 {
    let word = &row[row.len() - 2 - from_end];
    word.split(' ').next().and_then(|number| number.parse().ok()).unwrap_or(f64::NAN)
}

/// A sweep from 100 to 3000 Hz and back, whose level rises and falls.
fn sweep(rate_hz: u32, seconds: u32) -> wav::Repr {
    let mut phase = 0.0_f64;
    let sample = |n: u32| {
        let at = f64::from(n) / f64::from(rate_hz);
        phase += std::f64::consts::TAU * (1550.0 + 1450.0 * (at * 3.0).sin()) / f64::from(rate_hz);
        (12_000.0 * (0.6 + 0.4 * (at * 11.0).cos()) * phase.sin()) as i16
    };
    wav::Repr { rate_hz, channels: 1, samples: (0..rate_hz * seconds).map(sample).collect() }
}

fn read(path: &Path) -> wav::Repr {
    wav::Repr::parse(&fs::read(path).expect("written")).expect("WAV")
}

/// Returns a Python with PESQ: that of the project's tests, or the system's.
fn python() -> Option<PathBuf> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../target/python/bin/python");
    let has_pesq = |python: &PathBuf| {
        let mut command = Command::new(python);
        command.args(["-c", "import numpy, pesq"]).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    let found = [own, "python3".into()].into_iter().find(has_pesq);
    if found.is_none() {
        skip("no Python with numpy and pesq");
    }
    found
}

/// Returns a folder with speech, as espeak-ng says it.
fn speech() -> Option<Folder> {
    if !has("espeak-ng") || !has("ffmpeg") {
        return None;
    }
    let folder = Folder::new();
    said(&run("espeak-ng", &folder, &["-v", "en", "-s", "150", "-w", "speech.wav", TEXT]), 0);
    Some(folder)
}

#[test]
fn g711_needs_no_other_program_and_arrives_as_it_was_coded() {
    let folder = Folder::new();
    let sent = sweep(8000, 2);
    fs::write(folder.path().join("sent.wav"), sent.to_bytes()).expect("written");
    for (name, law) in [("g711a", Law::A), ("g711u", Law::Mu)] {
        let output =
            bentpipe(&folder, &format!("voice carry sent.wav received.wav --codec {name} --no-judge"));
        let row = &rows(&output)[0];
        assert_eq!(value(row, 7), 100.0, "packets of 2 s: {row:?}");
        // 20 ms of the packet, 260 ms of the link and 60 ms of the playout buffer, and the packet's time on the line.
        assert!((value(row, 4) - 341.0).abs() <= 1.0, "{row:?}");
        let coded: Vec<i16> = sent.samples.iter().map(|sample| law.decode(law.encode(*sample))).collect();
        assert!(read(&folder.path().join("received.wav")).samples == coded, "{name}");
    }
}

#[test]
fn lost_packets_are_concealed_and_counted() {
    let folder = Folder::new();
    let sent = sweep(8000, 4);
    fs::write(folder.path().join("sent.wav"), sent.to_bytes()).expect("written");
    let lossy = "voice carry sent.wav received.wav --codec g711a --loss 0.1 --no-judge";
    let row = rows(&bentpipe(&folder, lossy))[0].clone();
    assert!((5.0..=16.0).contains(&value(&row, 6)), "{row:?}");
    let repeated = read(&folder.path().join("received.wav")).samples;
    rows(&bentpipe(&folder, &format!("{lossy} --conceal silence")));
    let silent = read(&folder.path().join("received.wav")).samples;
    assert_eq!((repeated.len(), silent.len()), (sent.samples.len(), sent.samples.len()));
    let zeros =
        |samples: &[i16]| samples.chunks(160).filter(|part| part.iter().all(|sample| *sample == 0)).count();
    let lost = (value(&row, 6) * 2.0).round() as usize;
    assert_eq!((zeros(&silent), zeros(&repeated)), (lost, 0), "of 200 packets: {row:?}");
}

#[test]
fn pauses_are_not_sent_with_silence_suppression() {
    let folder = Folder::new();
    let mut sent = sweep(8000, 6);
    sent.samples[16_000..32_000].fill(0);
    fs::write(folder.path().join("sent.wav"), sent.to_bytes()).expect("written");
    let words =
        "voice carry sent.wav received.wav --no-judge --set flow.call.traffic.silence_suppression=true";
    let output = bentpipe(&folder, &format!("{words} --set flow.call.traffic.playout={{kind=\"minimum\"}}"));
    assert_eq!(value(&rows(&output)[0], 7), 200.0, "4 s of 6 s");
    let received = read(&folder.path().join("received.wav")).samples;
    let is_silent = |from: usize, to: usize| received[from..to].iter().all(|sample| *sample == 0);
    assert!(is_silent(17_000, 31_000) && !is_silent(8000, 8100) && !is_silent(40_000, 40_100));
}

#[test]
fn what_cannot_be_coded_or_judged_is_refused_with_the_reason() {
    let folder = Folder::new();
    fs::write(folder.path().join("sent.wav"), sweep(8000, 1).to_bytes()).expect("written");
    fs::write(
        folder.path().join("silence.wav"),
        wav::Repr { samples: vec![0; 8000], ..sweep(8000, 1) }.to_bytes(),
    )
    .expect("written");
    fs::write(folder.path().join("quiet.toml"), QUIET).expect("written");
    for (words, reason) in [
        ("sent.wav out.wav --codec g729", "G.729 has no encoder here: expected g711a"),
        ("sent.wav out.wav --codec g711b", "expected one of g711a"),
        ("sent.wav out.wav --codec opus --frames 2", "expected `frames = 1`"),
        ("silence.wav out.wav", "silence.wav: expected speech, found silence"),
        ("none.wav out.wav", "none.wav: "),
        ("sent.wav out.wav --scenario quiet.toml", "no flow is \"voice\""),
        ("sent.wav out.wav --loss 101", "expected a number from 0 to 1"),
    ] {
        let output = bentpipe(&folder, &format!("voice carry {words}"));
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{words}: {text}");
        assert!(text.contains(reason), "{words}: {text}");
    }
    let output = bentpipe(&folder, "voice carry sent.wav out.wav --python no-such-python");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(value(&rows(&output)[0], 0).is_nan() && text.contains("no-such-python does not judge"), "{text}");
    assert!(text.contains("pip install numpy pesq"), "{text}");
}

#[test]
fn ffmpeg_decodes_g711_the_same() {
    if !has("ffmpeg") {
        return;
    }
    let folder = Folder::new();
    for (name, law) in [("alaw", Law::A), ("mulaw", Law::Mu)] {
        fs::write(folder.path().join("all.raw"), (0..=255).collect::<Vec<u8>>()).expect("written");
        let words = format!("-y -loglevel error -f {name} -ar 8000 -i all.raw -f s16le out.raw");
        said(&run("ffmpeg", &folder, &words.split(' ').collect::<Vec<_>>()), 0);
        let own: Vec<u8> = (0..=255).flat_map(|byte| law.decode(byte).to_le_bytes()).collect();
        assert_eq!(fs::read(folder.path().join("out.raw")).expect("written"), own, "{name}");
    }
}

#[test]
fn every_codec_is_heard_as_well_as_its_judge_says() {
    let (Some(folder), Some(python)) = (speech(), python()) else { return };
    let codecs = "g711a,g711u,g722,g723.1,g726,gsm,opus,speex";
    let words = format!("voice carry speech.wav received.wav --codec {codecs} --python {}", python.display());
    let rows = rows(&bentpipe(&folder, &words));
    assert_eq!(rows.len(), 8);
    // Means of five sentences are 3.96 for G.711, 2.55 for GSM, 2.88 for Speex, and 4.06 for Opus at 16 kHz.
    for (row, least) in rows.iter().zip([3.5, 3.5, 2.7, 1.8, 2.0, 2.0, 3.2, 2.2]) {
        assert!(value(row, 0) >= least, "{row:?}");
        assert_eq!((value(row, 6), value(row, 5)), (0.0, 0.0), "nothing is lost: {row:?}");
    }
    for n in 1..=8 {
        let received = read(&folder.path().join(format!("received-{n}.wav")));
        assert_eq!(received.rate_hz, if [3, 7].contains(&n) { 16_000 } else { 8000 });
    }
}

#[test]
fn model_and_ear_model_fall_with_the_loss_and_concealment_helps() {
    let (Some(folder), Some(python)) = (speech(), python()) else { return };
    let words = |more: &str| {
        let python = python.display();
        format!("voice carry speech.wav received.wav --codec g711a --seeds 3 --python {python} {more}")
    };
    let mean = |rows: &[Vec<String>], column| {
        rows.iter().map(|row| value(row, column)).sum::<f64>() / rows.len() as f64
    };
    let repeated = rows(&bentpipe(&folder, &words("--loss 0,0.03,0.1 --svg scores.svg")));
    assert_eq!(repeated.len(), 9);
    for column in [0, 1] {
        let scores: Vec<f64> = repeated.chunks(3).map(|runs| mean(runs, column)).collect();
        assert!(scores[0] > scores[1] && scores[1] > scores[2], "column {column}: {scores:?}");
    }
    let silent = rows(&bentpipe(&folder, &words("--loss 0.1 --conceal silence")));
    assert!(mean(&repeated[6..], 0) > mean(&silent, 0) + 0.2, "{repeated:?} {silent:?}");
    let svg = fs::read_to_string(folder.path().join("scores.svg")).expect("written");
    for said in ["<svg", "E-model", "PESQ", "packets lost or late"] {
        assert!(svg.contains(said), "{said}");
    }
}
