//! Checks on `bentpipe-agent`: a message is what its type says or is refused, and what is accepted stays within its bounds.

use bentpipe_agent::manifest::{self, CHUNK, MAX_BYTES, path_refusal};
use bentpipe_agent::protocol::{
    Command, Enrol, Hello, Outcome, Poll, Samples, Turn, check_poll, check_samples, parse,
};
use bentpipe_agent::{Allowed, Invitation, job, program};

/// Function under test.
pub type Target = fn(&[u8]);

/// Every target by the name of its corpus.
pub const TARGETS: &[(&str, Target)] = &[("messages", fuzz_messages), ("jobs", fuzz_jobs)];

/// Reads bytes as every message of both sides. What is read is written and read again, the same.
pub fn fuzz_messages(data: &[u8]) {
    if let Ok(poll) = parse::<Poll>(data) {
        let text = serde_json::to_vec(&poll).expect("JSON");
        // Floats that JSON cannot write are read as absent.
        if serde_json::to_vec(&parse::<Poll>(&text).expect("read again")).expect("JSON") != text {
            panic!("a poll changes");
        }
        let _ = check_poll(&poll);
        for result in &poll.results {
            let Outcome::Files { files } = &result.outcome else { continue };
            if manifest::check(files).is_err() {
                continue;
            }
            let bytes: u64 = files.iter().map(|file| file.bytes).sum();
            assert!(bytes <= MAX_BYTES);
            for file in files {
                assert_eq!(path_refusal(&file.path), None);
                let whole: u64 = (0..file.chunk_count()).map(|chunk| file.chunk_bytes(chunk)).sum();
                assert_eq!(whole, file.bytes);
                assert!((0..file.chunk_count()).all(|chunk| file.chunk_hash(chunk).is_some()));
                assert!(file.chunk_bytes(0) <= CHUNK);
            }
        }
    }
    if let Ok(turn) = parse::<Turn>(data) {
        for command in &turn.commands {
            let text = serde_json::to_vec(command).expect("JSON");
            assert_eq!(parse::<Command>(&text).as_ref(), Ok(command));
            if let bentpipe_agent::protocol::Act::Prepare { program, .. } = &command.act {
                let _ = program::check_values(program);
            }
        }
    }
    if let Ok(samples) = parse::<Samples>(data) {
        let _ = check_samples(&samples.text);
    }
    let _ = (parse::<Hello>(data), parse::<Enrol>(data));
}

/// Reads a text as a job file, a site's file, and the code of an invitation.
pub fn fuzz_jobs(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match job::parse(&text, 10.0) {
        Ok(job) => {
            assert!(!job.tasks.is_empty() && job.tasks.len() <= job::MAX_TASKS);
            for task in &job.tasks {
                assert_eq!(program::check_values(&task.program), Ok(()));
                assert!(task.most_s > 0 && task.start_us >= 0);
            }
        }
        Err(why) => assert!(!why.is_empty()),
    }
    if let Ok(allowed) = Allowed::parse(&text) {
        let _ = (allowed.most_s(), allowed.most_bytes());
    }
    if let Ok(invitation) = Invitation::parse(&text) {
        assert_eq!(Invitation::parse(&invitation.to_string()), Ok(invitation));
    }
}
