-- Version of the definitions of a job's measures. Results of before state none, which is the first.
ALTER TABLE job ADD COLUMN definitions INTEGER NOT NULL DEFAULT 1;
