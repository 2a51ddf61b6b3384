//! Reading whole files, which may be anything: a device without end, or more than there is memory for.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// The bytes of a file of at most `most`.
///
/// # Errors
/// As the file system gives; if the file is longer, which is found out without reading all of it.
pub(crate) fn read_at_most(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("longer than {most} bytes")));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_end_is_not_read_to_it() {
        let problem = read_at_most(Path::new("/dev/zero"), 1000).expect_err("no end").to_string();
        assert_eq!(problem, "longer than 1000 bytes");
        assert_eq!(read_at_most(Path::new("/dev/null"), 0).expect("empty"), b"");
    }
}
