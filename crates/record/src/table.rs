//! Tables of results, and their text for terminals.

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
        let is_number = |row: &Vec<Cell>, column| matches!(row.get(column), Some(Cell::Number(_)));
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
}

fn line(cells: &[String]) -> String {
    format!("  {}\n", cells.join("   ").trim_end())
}

fn shown(cell: &Cell, width: usize, colours: bool) -> String {
    let text = padded(cell.text(), width, matches!(cell, Cell::Number(_)));
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
    }
}
