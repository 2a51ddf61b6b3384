//! What happened in a run, as series and files.
