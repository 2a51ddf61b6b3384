//! Names that metrics had in earlier releases.

use std::borrow::Cow;

use bentpipe_net::external_port;
use bentpipe_net::metric::Metric;
use bentpipe_transport::{app, tcp};

/// Catalogues in which metrics were renamed.
static RENAMED: [&[&Metric]; 3] = [external_port::metrics::ALL, tcp::metrics::ALL, app::metrics::ALL];

/// Returns the present name of a metric or column, given that of an earlier release.
///
/// Names that were never renamed come back as they are.
pub fn current(name: &str) -> Cow<'_, str> {
    let (subject, metric) = name.rsplit_once('.').map_or(("", name), |(subject, metric)| (subject, metric));
    let mut all = RENAMED.iter().flat_map(|catalogue| catalogue.iter());
    match all.find(|known| known.once.contains(&metric)) {
        Some(known) if subject.is_empty() => Cow::Borrowed(known.name),
        Some(known) => Cow::Owned(format!("{subject}.{}", known.name)),
        None => Cow::Borrowed(name),
    }
}

#[cfg(test)]
mod tests {
    use super::current;

    #[test]
    fn names_of_earlier_releases_are_read() {
        for (old, new) in [
            ("flow.cubic.receiver.bytes_delivered", "flow.cubic.receiver.delivered-bytes"),
            ("flow.*.receiver.bytes", "flow.*.receiver.delivered-bytes"),
            ("one_way_delay", "delay"),
            ("flow.cubic.sender.cwnd", "flow.cubic.sender.cwnd"),
        ] {
            assert_eq!(current(old), new);
            assert_eq!(current(new), new);
        }
    }
}
