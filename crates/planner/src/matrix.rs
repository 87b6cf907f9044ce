//! A dense square matrix of delays or costs, row by row.

/// n times n numbers; entry (i, j) of a delay matrix is from VM i to VM j.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Square {
    n: usize,
    entries: Vec<f64>,
}

impl Square {
    /// A matrix of `n` × `n` entries, all equal to `with`.
    pub fn filled(n: usize, with: f64) -> Square {
        Square { n, entries: vec![with; n * n] }
    }

    /// A matrix whose entries a function gives.
    pub fn from_fn(n: usize, mut entry: impl FnMut(usize, usize) -> f64) -> Square {
        let mut entries = Vec::with_capacity(n * n);
        for row in 0..n {
            entries.extend((0..n).map(|column| entry(row, column)));
        }
        Square { n, entries }
    }

    /// Number of rows, and of columns.
    pub fn n(&self) -> usize {
        self.n
    }

    /// One row.
    ///
    /// # Panics
    /// Beyond the last.
    pub fn row(&self, row: usize) -> &[f64] {
        &self.entries[row * self.n..(row + 1) * self.n]
    }

    /// One row to change.
    ///
    /// # Panics
    /// Beyond the last.
    pub fn row_mut(&mut self, row: usize) -> &mut [f64] {
        &mut self.entries[row * self.n..(row + 1) * self.n]
    }

    /// An entry.
    ///
    /// # Panics
    /// Outside.
    #[inline]
    pub fn at(&self, row: usize, column: usize) -> f64 {
        self.entries[row * self.n + column]
    }

    /// Sets an entry.
    ///
    /// # Panics
    /// Outside.
    pub fn set(&mut self, row: usize, column: usize, to: f64) {
        self.entries[row * self.n + column] = to;
    }

    /// The matrix with rows and columns exchanged.
    pub fn transposed(&self) -> Square {
        Square::from_fn(self.n, |row, column| self.at(column, row))
    }

    /// Whether all entries are finite.
    pub fn is_finite(&self) -> bool {
        self.entries.iter().all(|entry| entry.is_finite())
    }
}
