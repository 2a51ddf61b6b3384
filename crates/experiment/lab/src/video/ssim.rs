//! Structural similarity of two pictures (Wang, Bovik, Sheikh and Simoncelli 2004).
//!
//! Windows of 8 x 8 samples with equal weights, every 4 samples, as most video tools have them. Pictures smaller than
//! a window are one.

/// Side of the blocks whose sums are shared by windows, in samples.
const BLOCK: usize = 4;
/// Constants against division by little: (0.01 * 255)^2 and (0.03 * 255)^2.
const STEADY: [f64; 2] = [6.5025, 58.5225];

/// Sums over an area of both pictures.
#[derive(Clone, Copy, Default)]
struct Sums {
    samples: u64,
    first: u64,
    second: u64,
    squares: u64,
    products: u64,
}

impl Sums {
    fn add(self, other: Sums) -> Sums {
        Sums {
            samples: self.samples + other.samples,
            first: self.first + other.first,
            second: self.second + other.second,
            squares: self.squares + other.squares,
            products: self.products + other.products,
        }
    }

    fn take(&mut self, a: u8, b: u8) {
        let (a, b) = (u64::from(a), u64::from(b));
        self.samples += 1;
        self.first += a;
        self.second += b;
        self.squares += a * a + b * b;
        self.products += a * b;
    }

    /// Returns the similarity, with unbiased variances.
    fn similarity(self) -> f64 {
        let n = self.samples as f64;
        let (a, b) = (self.first as f64 / n, self.second as f64 / n);
        let unbiased = n / (n - 1.0).max(1.0);
        let variances = (self.squares as f64 / n - a * a - b * b) * unbiased;
        let covariance = (self.products as f64 / n - a * b) * unbiased;
        let [c1, c2] = STEADY;
        (2.0 * a * b + c1) * (2.0 * covariance + c2) / ((a * a + b * b + c1) * (variances + c2))
    }
}

/// Returns the mean similarity of two pictures of the same size.
pub(super) fn of(a: &[u8], b: &[u8], width: usize) -> f64 {
    let (across, down) = (width / BLOCK, a.len() / width / BLOCK);
    if across < 2 || down < 2 {
        let mut sums = Sums::default();
        a.iter().zip(b).for_each(|(a, b)| sums.take(*a, *b));
        return sums.similarity();
    }
    let mut above = row(a, b, width, 0);
    let mut total = 0.0;
    for n in 1..down {
        let below = row(a, b, width, n);
        let column: Vec<Sums> = above.iter().zip(&below).map(|(above, below)| above.add(*below)).collect();
        total += column.windows(2).map(|pair| pair[0].add(pair[1]).similarity()).sum::<f64>();
        above = below;
    }
    total / ((across - 1) * (down - 1)) as f64
}

/// Returns the sums of each block in row `n` of blocks.
fn row(a: &[u8], b: &[u8], width: usize, n: usize) -> Vec<Sums> {
    let mut all = vec![Sums::default(); width / BLOCK];
    for y in n * BLOCK..(n + 1) * BLOCK {
        let line = y * width..(y + 1) * width;
        let pairs = a[line.clone()].chunks_exact(BLOCK).zip(b[line].chunks_exact(BLOCK));
        for (sums, (a, b)) in all.iter_mut().zip(pairs) {
            a.iter().zip(b).for_each(|(a, b)| sums.take(*a, *b));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flat_pictures_differ_by_their_means() {
        // Without variance only the means are left: (2 a b + c1) / (a^2 + b^2 + c1).
        let (a, b) = (vec![100; 16 * 16], vec![110; 16 * 16]);
        let expected = (2.0 * 100.0 * 110.0 + 6.5025) / (100.0_f64.powi(2) + 110.0_f64.powi(2) + 6.5025);
        assert!((of(&a, &b, 16) - expected).abs() < 1e-12);
        assert!((of(&a, &a, 16) - 1.0).abs() < 1e-12);
        // Too small for a window.
        assert!((of(&a[..8], &b[..8], 4) - expected).abs() < 1e-12);
    }

    #[test]
    fn a_picture_and_its_negative_are_unlike() {
        let a: Vec<u8> = (0..32 * 32).map(|n| if (n / 32 + n % 32) % 2 == 0 { 0 } else { 255 }).collect();
        let b: Vec<u8> = a.iter().map(|sample| 255 - sample).collect();
        assert!(of(&a, &b, 32) < -0.99);
    }
}
