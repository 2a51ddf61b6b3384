//! Tables of results, and their text for terminals.

use super::csv::quoted;

/// A table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// Caption; may be empty.
    pub caption: String,
    /// Titles of the columns.
    pub head: Vec<String>,
    /// Rows, each as long as `head`.
    pub rows: Vec<Vec<Cell>>,
}

/// A table's cell.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// Words, to the left.
    Text(String),
    /// A number, to the right.
    Number(String),
    /// Good news.
    Good(String),
    /// Bad news.
    Bad(String),
}

impl Cell {
    /// Returns the text of the cell.
    pub fn text(&self) -> &str {
        match self {
            Cell::Text(text) | Cell::Number(text) | Cell::Good(text) | Cell::Bad(text) => text,
        }
    }

    /// Returns `true` for a number, good and bad ones among them.
    pub fn is_number(&self) -> bool {
        match self {
            Cell::Text(_) => false,
            Cell::Number(_) => true,
            Cell::Good(text) | Cell::Bad(text) => text.starts_with(|first: char| first.is_ascii_digit()),
        }
    }
}

impl Table {
    /// Formats the table in columns, numbers to the right. `colours` enables ANSI colours of good and bad
    /// cells.
    pub fn to_text(&self, colours: bool) -> String {
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column)).map(Cell::text);
            cells.chain([&self.head[column][..]]).map(|text| text.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.head.len()).map(width).collect();
        let is_number = |row: &Vec<Cell>, column: usize| row.get(column).is_some_and(Cell::is_number);
        let right = |column| self.rows.iter().any(|row| is_number(row, column));
        let titles = self.head.iter().enumerate();
        let head: Vec<String> = titles.map(|(i, title)| padded(title, widths[i], right(i))).collect();
        let mut text = line(&head);
        for row in &self.rows {
            let cells: Vec<String> =
                row.iter().enumerate().map(|(i, cell)| shown(cell, widths[i], colours)).collect();
            text.push_str(&line(&cells));
        }
        text
    }

    /// Formats the table as CSV, in the characters that programs read numbers in.
    pub fn to_csv(&self) -> String {
        let plain = |text: &str| {
            quoted(&text.replace('\u{202f}', "").replace('\u{a0}', " ").replace('\u{2212}', "-"))
        };
        let cells = |cells: Vec<&str>| cells.into_iter().map(plain).collect::<Vec<_>>().join(",") + "\n";
        let rows = self.rows.iter().map(|row| cells(row.iter().map(Cell::text).collect()));
        cells(self.head.iter().map(String::as_str).collect()) + &rows.collect::<String>()
    }

    /// Formats the table as a LaTeX `tabular`.
    pub fn to_latex(&self) -> String {
        let rows: Vec<Vec<&str>> = self.rows.iter().map(|row| row.iter().map(Cell::text).collect()).collect();
        latex(&self.head, &rows)
    }
}

/// Formats titles and rows as a LaTeX `tabular`.
pub fn latex<H: AsRef<str>, C: AsRef<str>>(head: &[H], rows: &[Vec<C>]) -> String {
    let mut text = format!("\\begin{{tabular}}{{{}}}\n", "l".repeat(head.len()));
    text += &format!("{} \\\\\n\\hline\n", escaped(head));
    text.extend(rows.iter().map(|row| format!("{} \\\\\n", escaped(row))));
    text + "\\end{tabular}\n"
}

/// Returns cells as LaTeX, with what it would take for its own escaped.
fn escaped<C: AsRef<str>>(cells: &[C]) -> String {
    let escape = |text: &str| {
        let mut out = String::new();
        for char in text.chars() {
            match char {
                '\\' => out.push_str("\\textbackslash{}"),
                '~' => out.push_str("\\textasciitilde{}"),
                '^' => out.push_str("\\textasciicircum{}"),
                '\u{202f}' => out.push_str("\\,"),
                '\u{a0}' => out.push('~'),
                '\u{b1}' => out.push_str("$\\pm$"),
                '\u{2013}' => out.push_str("--"),
                '&' | '%' | '$' | '#' | '_' | '{' | '}' => out.extend(['\\', char]),
                _ => out.push(char),
            }
        }
        out
    };
    cells.iter().map(|cell| escape(cell.as_ref())).collect::<Vec<_>>().join(" & ")
}

fn line(cells: &[String]) -> String {
    format!("  {}\n", cells.join("   ").trim_end())
}

fn shown(cell: &Cell, width: usize, colours: bool) -> String {
    let text = padded(cell.text(), width, cell.is_number());
    match cell {
        Cell::Good(_) if colours => format!("\u{1b}[32m{text}\u{1b}[0m"),
        Cell::Bad(_) if colours => format!("\u{1b}[1;31m{text}\u{1b}[0m"),
        _ => text,
    }
}

fn padded(text: &str, width: usize, right: bool) -> String {
    // Terminals do not all know the narrow spaces of the report.
    let text = text.replace(['\u{202f}', '\u{a0}'], " ");
    if right { format!("{text:>width$}") } else { format!("{text:<width$}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_numbers_are_to_the_right() {
        let row = |name: &str, number: &str, last: Cell| {
            vec![Cell::Text(name.into()), Cell::Number(number.into()), last]
        };
        let rows =
            vec![row("a", "1\u{202f}000", Cell::Good("met".into())), row("bcd", "7", Cell::Bad("x".into()))];
        let head = ["", "n", "verdict"].map(String::from).to_vec();
        let table = Table { caption: String::new(), head, rows };
        assert_eq!(table.to_text(false), "            n   verdict\n  a     1 000   met\n  bcd       7   x\n");
        assert!(table.to_text(true).contains("\u{1b}[32mmet    \u{1b}[0m"));
        assert_eq!(table.to_csv(), ",n,verdict\na,1000,met\nbcd,7,x\n");
        // A number that is bad news is one.
        let head = ["errors".to_owned()].to_vec();
        let rows = vec![vec![Cell::Number("0".into())], vec![Cell::Bad("12".into())]];
        let table = Table { caption: String::new(), head, rows };
        assert_eq!(table.to_text(false), "  errors\n       0\n      12\n");
    }

    #[test]
    fn latex_is_escaped() {
        let text = latex(&["a_b", "\u{b1} 5 %"], &[vec!["1\u{202f}000", "x\\y"]]);
        let expected = [
            "\\begin{tabular}{ll}",
            "a\\_b & $\\pm$ 5 \\% \\\\",
            "\\hline",
            "1\\,000 & x\\textbackslash{}y \\\\",
            "\\end{tabular}",
        ];
        assert_eq!(text.lines().collect::<Vec<_>>(), expected);
    }
}
