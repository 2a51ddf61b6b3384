-- Bytes of a job's rows: settings of points, names and units of measures, and changes while it ran.
ALTER TABLE job ADD COLUMN rows INTEGER NOT NULL DEFAULT 0;
UPDATE job SET rows = (SELECT coalesce(sum(octet_length(settings) + octet_length(fingerprints) + 16), 0) FROM point WHERE job = job.id)
  + (SELECT coalesce(sum(octet_length(name) + octet_length(unit) + 32), 0) FROM measure WHERE job = job.id)
  + (SELECT coalesce(sum(octet_length(json) + 32), 0) FROM job_event WHERE job = job.id AND kind = 'set');
