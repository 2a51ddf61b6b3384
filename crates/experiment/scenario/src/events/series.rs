//! CSV file of an event: values of keys in time.

use bentpipe_units::Span;

/// Maximum length of a file in bytes.
pub(crate) const MAX_BYTES: u64 = 1 << 20;

/// Longest time in seconds: a century.
const MAX_TIME_S: f64 = 3.2e9;

/// Change of a key: line, time, key and value.
pub type Row<'a> = (usize, Span, &'a str, &'a str);

/// Parses a file.
///
/// # Errors
/// Returns the line and what was expected.
pub fn parse(text: &str) -> Result<Vec<Row<'_>>, (usize, String)> {
    let mut lines =
        text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
    let (first, header) =
        lines.next().ok_or((1, "expected a line of column names: time_s,KEY,...".to_owned()))?;
    let keys = match fields(header).split_first() {
        Some((&"time_s", keys)) if !keys.is_empty() => keys.to_vec(),
        _ => return Err((first + 1, format!("\"{header}\": expected time_s,KEY,..."))),
    };
    let (mut rows, mut before) = (Vec::new(), -1.0);
    for (n, line) in lines {
        let found = fields(line);
        if found.len() != keys.len() + 1 {
            return Err((n + 1, format!("{} fields: expected {}", found.len(), keys.len() + 1)));
        }
        let time_s: f64 =
            found[0].parse().map_err(|_| (n + 1, format!("\"{}\": expected seconds", found[0])))?;
        if !(0.0..=MAX_TIME_S).contains(&time_s) || time_s <= before {
            return Err((n + 1, format!("{time_s}: expected seconds that rise from line to line")));
        }
        before = time_s;
        let given = keys.iter().zip(&found[1..]).filter(|(_, value)| !value.is_empty());
        rows.extend(given.map(|(key, value)| (n + 1, Span::from_secs_f64(time_s), *key, *value)));
    }
    if rows.is_empty() {
        return Err((first + 1, "no values: expected lines of a time and a value for each key".to_owned()));
    }
    Ok(rows)
}

/// Returns the fields of a line without the quotes around them.
fn fields(line: &str) -> Vec<&str> {
    line.split(',').map(|field| field.trim().trim_matches('"').trim()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_changes_of_the_keys_above_them() {
        let text = "# measured\ntime_s,dvb.sky.es_n0_db,link.hop.rate\n0,11.5,2 Mbit/s\n\n2.5,\"9\",\n";
        let rows = parse(text).expect("a series");
        let second = Span::from_millis(2500);
        assert_eq!(
            rows,
            [
                (3, Span::ZERO, "dvb.sky.es_n0_db", "11.5"),
                (3, Span::ZERO, "link.hop.rate", "2 Mbit/s"),
                (5, second, "dvb.sky.es_n0_db", "9")
            ]
        );
    }

    #[test]
    fn lines_that_are_none_are_refused_with_their_number() {
        for (text, line, problem) in [
            ("", 1, "column names"),
            ("time,a.b\n", 1, "expected time_s"),
            ("time_s\n1\n", 1, "expected time_s"),
            ("time_s,a.b\n", 1, "no values"),
            ("time_s,a.b\n1,2,3\n", 2, "3 fields: expected 2"),
            ("time_s,a.b\nsoon,2\n", 2, "expected seconds"),
            ("time_s,a.b\n1,2\n1,3\n", 3, "rise from line to line"),
            ("time_s,a.b\n-1,2\n", 2, "rise"),
            ("time_s,a.b\nNaN,2\n", 2, "rise"),
            ("time_s,a.b\n1e99,2\n", 2, "rise"),
        ] {
            let (at, said) = parse(text).expect_err(text);
            assert!(at == line && said.contains(problem), "{text:?}: {at}: {said}");
        }
    }
}
