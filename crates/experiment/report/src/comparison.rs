//! The page of a comparison: two results side by side.

use bentpipe_record::Table;
use bentpipe_record::compare::{Comparison, Difference, Variant};

use super::page::{Block, Page};
use super::plot::Plot;
use super::tables::difference_table;
use super::{cdf, timed};

/// Returns the page: differences of measures, and plots side by side over common axes.
pub fn comparison_page(first: &Variant, second: &Variant, comparison: &Comparison) -> Page {
    let common = first.runs.keys().filter(|seed| second.runs.contains_key(*seed)).count();
    let mut facts: Vec<(String, String)> =
        vec![("first".into(), first.name()), ("second".into(), second.name())];
    facts.push(("common seeds".into(), common.to_string()));
    let mut blocks = tables(&comparison.differences);
    blocks.extend(
        comparison
            .note()
            .into_iter()
            .chain(comparison.alone())
            .chain(comparison.intervals())
            .chain(comparison.common_seeds())
            .map(Block::Paragraph),
    );
    let pairs = pairs(plots(first), plots(second));
    if !pairs.is_empty() {
        blocks.push(Block::Heading("Side by side".into()));
        let note =
            "Left the first, right the second, each with its first seed; distributions are over all seeds.";
        blocks.push(Block::Paragraph(note.into()));
        blocks.extend(pairs.into_iter().map(Block::Plots));
    }
    blocks.push(Block::Heading("How".into()));
    blocks.push(Block::Verbatim([how(first), how(second)].join("\n")));
    Page { title: "Comparison".into(), lead: String::new(), facts, blocks }
}

/// Returns the command that made a variant, and the commit of its program.
fn how(variant: &Variant) -> String {
    let commit = variant.commit.as_ref().map(|commit| format!("  # commit {commit}"));
    format!("{}{}", variant.command, commit.unwrap_or_default())
}

/// Returns the table of the clear differences, and all of them folded.
fn tables(differences: &[Difference]) -> Vec<Block> {
    let clear: Vec<Difference> =
        differences.iter().filter(|difference| difference.is_clear()).cloned().collect();
    let head = match clear.is_empty() {
        true => Block::Paragraph(
            "No difference has an interval that leaves out zero; one pair of runs has no interval.".into(),
        ),
        false => Block::Table(Table { caption: "Clear differences".into(), ..difference_table(&clear) }),
    };
    let all = Block::Folded("All measures".into(), vec![Block::Table(difference_table(differences))]);
    vec![Block::Heading("Differences".into()), head, all]
}

/// Returns the plots of a variant over time and of its delays.
fn plots(variant: &Variant) -> Vec<Plot> {
    let mut plots = variant.series(timed::is_drawn).map_or(Vec::new(), |series| timed::plots(&series));
    plots.extend(cdf::plot(variant.runs.values()));
    plots
}

/// Returns plots of the same title in pairs, over common axes. Titles that only one has come alone.
fn pairs(first: Vec<Plot>, mut second: Vec<Plot>) -> Vec<Vec<Plot>> {
    let mut pairs: Vec<Vec<Plot>> = Vec::new();
    for mut plot in first {
        let other = second.iter().position(|other| other.title == plot.title);
        let other = other.map(|place| second.remove(place));
        plot.note = "first".into();
        pairs.push(match other {
            Some(mut other) => {
                other.note = "second".into();
                let (x, y) = (plot.x_range(), plot.y_range());
                (plot.x.covers, plot.y.covers) = (other.x_range(), other.y_range());
                (other.x.covers, other.y.covers) = (x, y);
                vec![plot, other]
            }
            None => vec![plot],
        });
    }
    let alone = second.into_iter().map(|plot| vec![Plot { note: "second".into(), ..plot }]);
    pairs.extend(alone);
    pairs
}

#[cfg(test)]
mod tests {
    use super::super::axis::Axis;
    use super::super::plot::Curve;
    use super::*;

    fn plot(title: &str, points: &[(f64, f64)]) -> Plot {
        let mut plot = Plot::new(title, Axis::time(), Axis::new("goodput", "bit/s"));
        plot.curves = vec![Curve { points: points.to_vec(), ..Curve::default() }];
        plot
    }

    #[test]
    fn plots_of_a_title_share_their_axes() {
        let first = vec![plot("a", &[(0.0, 1.0), (5.0, 2.0)]), plot("b", &[(0.0, 1.0)])];
        let second = vec![plot("c", &[(0.0, 1.0)]), plot("a", &[(2.0, 9.0), (9.0, 3.0)])];
        let pairs = pairs(first, second);
        let titles: Vec<Vec<&str>> =
            pairs.iter().map(|pair| pair.iter().map(|plot| &plot.title[..]).collect()).collect();
        assert_eq!(titles, [vec!["a", "a"], vec!["b"], vec!["c"]]);
        let ranges: Vec<_> = pairs[0].iter().map(|plot| (plot.x_range(), plot.y_range())).collect();
        assert_eq!(ranges, [(Some((0.0, 9.0)), Some((1.0, 9.0))); 2]);
    }
}
