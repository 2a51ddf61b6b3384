use std::path::Path;

use super::*;

/// Writes a run of `columns` columns, of which one has `rows` instants: in the file they have two rows each.
fn write_wide(folder: &Path, columns: usize, rows: usize) {
    let names: Vec<String> = (0..columns).map(|n| format!("link.{n}.forward")).collect();
    let mut samples: Vec<(f64, &str)> = (0..rows).map(|row| (row as f64, &names[0][..])).collect();
    samples.extend(names[1..].iter().map(|name| (0.0, &name[..])));
    let file = std::fs::File::create(folder.join("series.parquet")).expect("created");
    let mut file =
        SerializedFileWriter::new(file, Arc::new(schema().expect("it")), Arc::default()).expect("begun");
    let mut group = file.next_row_group().expect("begun");
    let text = |text: &str| ByteArray::from(text.as_bytes().to_vec());
    let texts = |of: &dyn Fn(&str) -> ByteArray| samples.iter().map(|(_, name)| of(name)).collect::<Vec<_>>();
    let times: Vec<f64> = samples.iter().map(|(time, _)| *time).collect();
    let values = vec![1.0; samples.len()];
    for column in 0..5 {
        let mut out = group.next_column().expect("begun").expect("one of five");
        let written = match column {
            0 => out.typed::<DoubleType>().write_batch(&times, None, None),
            1 => out.typed::<ByteArrayType>().write_batch(&texts(&text), None, None),
            2 => out.typed::<ByteArrayType>().write_batch(&texts(&|_| text("queue-bytes")), None, None),
            3 => out.typed::<ByteArrayType>().write_batch(&texts(&|_| text("B")), None, None),
            _ => out.typed::<DoubleType>().write_batch(&values, None, None),
        };
        written.expect("written");
        out.close().expect("closed");
    }
    group.close().expect("closed");
    file.close().expect("closed");
    let declared = r#"{"metrics":[{"name":"queue-bytes","unit":"B","kind":"gauge","label":"Queue","of":["link.*.forward"]}]}"#;
    std::fs::write(folder.join("metrics.json"), declared).expect("written");
}

#[test]
fn a_series_is_refused_by_columns_times_instants_before_memory_is_taken() {
    let folder = tempfile::tempdir().expect("a folder");
    // 25,000 rows in the file, 150 million samples in memory.
    write_wide(folder.path(), 10_001, 15_000);
    assert!(check_series(folder.path(), 1 << 28).is_ok());
    let error = check_series(folder.path(), 1 << 26).expect_err("too large").to_string();
    assert_eq!(error, "series.parquet: 10001 columns of 15000 instants: expected at most 67108864 samples");
    assert!(read_series_within(folder.path(), 1 << 26, |_, _| true).is_err());
    // Of columns that are not wanted no samples are kept.
    let one = read_series_within(folder.path(), 1 << 26, |subject, _| subject == "link.7.forward");
    assert_eq!(one.expect("read").columns.len(), 1);
    // The rows that the file states are compared before any is decoded.
    let error = check_series(folder.path(), 20_000).expect_err("too large").to_string();
    assert!(error.contains("1 columns of 25000 instants"), "{error}");
}
