//! Limit on the size of files that a process writes (RLIMIT_FSIZE).

use rustix::process::{Resource, getrlimit};

/// Has a write beyond the limit fail with EFBIG, where SIGXFSZ would end the process.
///
/// So what it has made, such as namespaces, is taken down, and its message names the file. Programs that it starts inherit that (execve(2)).
pub fn fail_at_limit() {
    // SAFETY: sets a disposition that has no handler, before any thread could set another one.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// Returns the limit in bytes, if there is one.
pub fn limit() -> Option<u64> {
    getrlimit(Resource::Fsize).current
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::process::Command;

    /// Runs in a process of its own, which has the limit.
    #[test]
    fn a_write_beyond_the_limit_is_an_error() {
        const FILE: &str = "BENTPIPE_LIMITED_FILE";
        if let Some(path) = std::env::var_os(FILE) {
            super::fail_at_limit();
            assert_eq!(super::limit(), Some(1024));
            let mut file = std::fs::File::create(path).expect("made");
            let error = file.write_all(&[1; 4096]).expect_err("over the limit");
            assert_eq!(error.raw_os_error(), Some(libc::EFBIG));
            return;
        }
        let file = std::env::temp_dir().join(format!("bentpipe-limited-{}", std::process::id()));
        let own = std::env::current_exe().expect("a program");
        let name = "file_size::tests::a_write_beyond_the_limit_is_an_error";
        // In POSIX mode Bash counts in half blocks.
        let output = Command::new("bash")
            .args(["-c", "ulimit -f 1; exec \"$0\" \"$1\" --exact"])
            .args([own.as_os_str(), name.as_ref()])
            .env_remove("POSIXLY_CORRECT")
            .env(FILE, &file)
            .output();
        let _ = std::fs::remove_file(file);
        let output = output.expect("bash runs");
        assert!(output.status.success(), "{output:?}");
    }
}
