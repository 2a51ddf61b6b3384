-- Files of users, which their scenarios name. The content is a file of the data folder, named by its hash.
CREATE TABLE file (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    owner INTEGER NOT NULL REFERENCES user(id),
    shared INTEGER NOT NULL DEFAULT 0,
    name TEXT NOT NULL,
    size INTEGER NOT NULL,
    sha256 TEXT NOT NULL CHECK (length(sha256) = 64),
    created INTEGER NOT NULL,
    UNIQUE (owner, name),
    CHECK (name GLOB '[A-Za-z0-9]*' AND name NOT GLOB '*[^A-Za-z0-9._-]*' AND length(name) <= 100)
) STRICT;
-- What the names were when a job was launched.
CREATE TABLE job_file (
    job INTEGER NOT NULL REFERENCES job(id),
    name TEXT NOT NULL,
    size INTEGER NOT NULL,
    sha256 TEXT NOT NULL,
    PRIMARY KEY (job, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX job_file_content ON job_file(sha256);
CREATE INDEX file_content ON file(sha256);
