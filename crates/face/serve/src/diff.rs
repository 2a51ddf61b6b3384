//! Difference of two texts by lines.

/// Lines around a change that are shown.
const CONTEXT: usize = 3;
/// Most pairs of lines that are compared; longer texts are shown as removed and added.
const MAX_CELLS: usize = 4_000_000;
/// Most lines that are shown.
const MAX_LINES: usize = 5000;

/// Returns the lines of both texts with marks.
///
/// '-' marks lines of the first alone, '+' of the second alone, ' ' of both. Long common parts are cut, and so is what follows 5000
/// lines. It takes up to a second, and is for children.
pub(crate) fn lines(from: &str, to: &str) -> Vec<(char, String)> {
    let (from, to): (Vec<&str>, Vec<&str>) = (from.lines().collect(), to.lines().collect());
    let start = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
    let rest = (&from[start..], &to[start..]);
    let end = rest.0.iter().rev().zip(rest.1.iter().rev()).take_while(|(a, b)| a == b).count();
    let (removed, added) = (&rest.0[..rest.0.len() - end], &rest.1[..rest.1.len() - end]);
    let mut all: Vec<(char, String)> = from[..start].iter().map(|line| (' ', (*line).to_owned())).collect();
    all.extend(changed(removed, added));
    all.extend(from[from.len() - end..].iter().map(|line| (' ', (*line).to_owned())));
    shortened(&all)
}

/// Compares by the longest common subsequence.
fn changed(from: &[&str], to: &[&str]) -> Vec<(char, String)> {
    let mut all = Vec::new();
    let mut push = |mark: char, line: &str| all.push((mark, line.to_owned()));
    if from.len().saturating_mul(to.len()) > MAX_CELLS {
        from.iter().for_each(|line| push('-', line));
        to.iter().for_each(|line| push('+', line));
        return all;
    }
    let width = to.len() + 1;
    let mut lengths = vec![0_u32; (from.len() + 1) * width];
    for i in (0..from.len()).rev() {
        for j in (0..to.len()).rev() {
            lengths[i * width + j] = match from[i] == to[j] {
                true => lengths[(i + 1) * width + j + 1] + 1,
                false => lengths[(i + 1) * width + j].max(lengths[i * width + j + 1]),
            };
        }
    }
    let (mut i, mut j) = (0, 0);
    while i < from.len() || j < to.len() {
        if i < from.len() && j < to.len() && from[i] == to[j] {
            push(' ', from[i]);
            (i, j) = (i + 1, j + 1);
        } else if i < from.len()
            && (j == to.len() || lengths[(i + 1) * width + j] >= lengths[i * width + j + 1])
        {
            push('-', from[i]);
            i += 1;
        } else {
            push('+', to[j]);
            j += 1;
        }
    }
    all
}

/// Leaves out lines that are far from any change.
fn shortened(all: &[(char, String)]) -> Vec<(char, String)> {
    let is_near = |n: usize| {
        let around = n.saturating_sub(CONTEXT)..(n + CONTEXT + 1).min(all.len());
        all[around].iter().any(|(mark, _)| *mark != ' ')
    };
    let mut shown = Vec::new();
    let mut gap = false;
    for (n, line) in all.iter().enumerate() {
        if is_near(n) {
            shown.push(line.clone());
            gap = false;
        } else if !gap {
            shown.push((' ', "\u{22ef}".to_owned()));
            gap = true;
        }
        if shown.len() == MAX_LINES {
            shown.push((' ', "\u{22ef} the difference is longer".to_owned()));
            return shown;
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::{MAX_LINES, lines};

    #[test]
    fn changed_lines_are_marked_and_far_ones_left_out() {
        let from: String = (0..20).map(|n| format!("{n}\n")).collect();
        let to = from.replace("10\n", "ten\nand more\n");
        let marks: String = lines(&from, &to).iter().map(|(mark, _)| *mark).collect();
        assert_eq!(marks, "    -++    ");
        assert_eq!(lines("a\nb\nc\n", "a\nc\nd\n").iter().filter(|(mark, _)| *mark != ' ').count(), 2);
        assert!(lines(&from, &from).iter().all(|(mark, _)| *mark == ' '));
        let long: String = (0..100_000).map(|_| "\n").collect();
        assert_eq!(lines("", &long).len(), MAX_LINES + 1);
    }
}
