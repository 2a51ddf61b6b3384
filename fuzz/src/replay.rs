//! What `cargo test` does with a target: each input that its crate keeps, and a bounded number of mutations of those. For the tests of
//! crates that know `units`, whose random numbers these are.

use std::panic::catch_unwind;
use std::path::Path;

use bentpipe_units::RandomStream;

/// The files of a folder of the crate at `manifest` whose names end so, in the order of their names.
pub fn files(manifest: &str, folder: &str, ending: &str) -> Vec<Vec<u8>> {
    let entries = std::fs::read_dir(Path::new(manifest).join(folder)).expect("a corpus");
    let mut files: Vec<_> = entries.map(|entry| entry.expect("readable").path()).collect();
    files.retain(|path| path.to_string_lossy().ends_with(ending));
    files.sort();
    files.iter().map(|path| std::fs::read(path).expect("readable")).collect()
}

/// The inputs that the crate at `manifest` keeps for the target `name`: more than one.
pub fn corpus(manifest: &str, name: &str) -> Vec<Vec<u8>> {
    let inputs = files(manifest, &format!("tests/corpus/{name}"), "");
    assert!(inputs.len() > 1, "{name}: {} inputs", inputs.len());
    inputs
}

/// A number below `bound`; 0 if there is none.
pub fn below(rng: &mut RandomStream, bound: usize) -> usize {
    ((rng.unit() * bound as f64) as usize).min(bound.saturating_sub(1))
}

/// Runs the target `name` on all of `inputs`, and on `count` copies of some of them with 1 to `most` changes each.
pub fn replay(
    (name, target): (&str, fn(&[u8])),
    inputs: &[Vec<u8>],
    (count, most): (usize, usize),
    change: impl Fn(&mut Vec<u8>, &mut RandomStream),
) {
    let run = |input: &[u8]| {
        let text = String::from_utf8_lossy(input);
        assert!(catch_unwind(|| target(input)).is_ok(), "{name} fails on {input:02x?}\n{text}");
    };
    inputs.iter().for_each(|input| run(input));
    let mut rng = RandomStream::new(7, name);
    for _ in 0..count {
        let mut input = inputs[below(&mut rng, inputs.len())].clone();
        for _ in 0..1 + below(&mut rng, most) {
            change(&mut input, &mut rng);
        }
        run(&input);
    }
}

/// Cuts an input that is not empty, not below two bytes, changes a byte, or flips a bit.
pub fn damage(input: &mut Vec<u8>, rng: &mut RandomStream) {
    let at = below(rng, input.len());
    match below(rng, 8) {
        0 => input.truncate(at.max(2)),
        1 => input[at] = below(rng, 256) as u8,
        _ => input[at] ^= 1 << below(rng, 8),
    }
}
