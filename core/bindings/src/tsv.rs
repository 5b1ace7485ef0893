//! Tab-separated tables: comment lines begin with `#`, the first other line names the columns.

use std::path::Path;

use crate::{Result, TableError};

/// A table in memory: rows of cells, as many as there are columns.
pub(crate) struct Table {
    file: String,
    columns: Vec<String>,
    rows: Vec<(usize, Vec<String>)>,
}

/// One row, with its place for error texts.
#[derive(Clone, Copy)]
pub(crate) struct Row<'a> {
    table: &'a Table,
    line: usize,
    cells: &'a [String],
}

impl Table {
    /// Reads `directory/file`.
    pub(crate) fn read(directory: &Path, file: &str) -> Result<Table> {
        let path = directory.join(file);
        let text = std::fs::read_to_string(&path)
            .map_err(|error| TableError(format!("cannot read {}: {error}", path.display())))?;
        Table::parse(file, &text)
    }

    /// Parses `text`; `file` is for error texts.
    pub(crate) fn parse(file: &str, text: &str) -> Result<Table> {
        let mut lines =
            text.lines().enumerate().filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        let split = |line: &str| line.split('\t').map(str::to_owned).collect::<Vec<_>>();
        let columns = lines.next().map(|(_, line)| split(line)).unwrap_or_default();
        let mut rows = Vec::new();
        for (index, line) in lines {
            let mut cells = split(line);
            if cells.len() > columns.len() {
                return Err(TableError(format!(
                    "{file}:{}: {} cells, but the header has {} columns",
                    index + 1,
                    cells.len(),
                    columns.len()
                )));
            }
            cells.resize(columns.len(), String::new());
            rows.push((index + 1, cells));
        }
        Ok(Table { file: file.to_owned(), columns, rows })
    }

    /// The rows in file order.
    pub(crate) fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        self.rows.iter().map(|(line, cells)| Row { table: self, line: *line, cells })
    }
}

impl<'a> Row<'a> {
    /// The cell under `column`.
    pub(crate) fn get(&self, column: &str) -> Result<&'a str> {
        let index = self.table.columns.iter().position(|name| name == column);
        index
            .map(|index| self.cells[index].as_str())
            .ok_or_else(|| TableError(format!("{}: no column {column}", self.table.file)))
    }

    /// An error about this row.
    pub(crate) fn error(&self, text: impl std::fmt::Display) -> TableError {
        TableError(format!("{}:{}: {text}", self.table.file, self.line))
    }
}

/// Whether `name` matches `pattern`: alternatives separated by `|`, in which `*` stands for any characters.
pub(crate) fn matches(pattern: &str, name: &str) -> bool {
    pattern.split('|').any(|pattern| {
        let mut parts = pattern.split('*');
        let Some(mut rest) = name.strip_prefix(parts.next().unwrap_or("")) else {
            return false;
        };
        let parts: Vec<_> = parts.collect();
        let Some((last, middle)) = parts.split_last() else {
            return rest.is_empty();
        };
        for part in middle {
            match rest.find(part) {
                Some(at) => rest = &rest[at + part.len()..],
                None => return false,
            }
        }
        rest.ends_with(last)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_characters() {
        for (pattern, name, expected) in [
            ("MPI_Send", "MPI_Send", true),
            ("MPI_Send", "MPI_Send_c", false),
            ("MPI_*_c2f", "MPI_Comm_c2f", true),
            ("MPI_*_c2f", "MPI_Comm_f2c", false),
            ("a|ranks*", "ranks1", true),
            ("MPI_*pack*", "MPI_Pack", false),
            ("*pack*", "unpack", true),
            ("MPI_Wait*", "MPI_Wait", true),
            ("ab*ba", "aba", false),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} and {name}");
        }
    }

    #[test]
    fn comments_are_skipped_and_short_rows_padded() {
        let table = Table::parse("t", "# x\na\tb\n1\t2\n3\n").unwrap();
        let rows: Vec<_> = table.rows().map(|row| (row.get("a").unwrap(), row.get("b").unwrap())).collect();
        assert_eq!(rows, [("1", "2"), ("3", "")]);
        assert!(Table::parse("t", "a\n1\t2\n").is_err());
    }
}
