//! A picture of sixteen colours in memory: lines, words in a font of 3 x 5 dots, and PNG bytes.
//!
//! The PNG is not compressed (deflate's stored blocks), which needs no library; half a byte a dot
//! keeps it small enough.

/// Palette index of the paper.
const PAPER: u8 = 0;
/// Palette index of the colour of text and lines.
pub const INK: u8 = 1;
/// Palette index of grid lines; the given colours follow.
pub const PALE: u8 = 2;
/// Dots of a letter's dot.
const SCALE: i32 = 2;
/// Width of a letter and the space after it.
const ADVANCE: i32 = 4 * SCALE;

/// A picture of palette indices.
pub struct Canvas {
    width: i32,
    height: i32,
    dots: Vec<u8>,
    palette: Vec<[u8; 3]>,
}

impl Canvas {
    /// White paper; `colours` as "#rrggbb", at most 13.
    pub fn new(width: i32, height: i32, colours: &[&str]) -> Canvas {
        let mut palette = vec![[255, 255, 255], [0x33, 0x3b, 0x47], [0xe3, 0xe6, 0xea]];
        let part = |colour: &str, at: usize| {
            colour.get(at..at + 2).and_then(|hex| u8::from_str_radix(hex, 16).ok()).unwrap_or(0)
        };
        palette.extend(colours.iter().map(|c| [part(c, 1), part(c, 3), part(c, 5)]));
        palette.truncate(16);
        Canvas { width, height, dots: vec![PAPER; (width * height) as usize], palette }
    }

    fn dot(&mut self, x: i32, y: i32, colour: u8) {
        if (0..self.width).contains(&x) && (0..self.height).contains(&y) {
            self.dots[(y * self.width + x) as usize] = colour;
        }
    }

    /// A straight line, `thickness` dots wide.
    pub fn line(&mut self, from: (i32, i32), to: (i32, i32), colour: u8, thickness: i32) {
        let steps = (to.0 - from.0).abs().max((to.1 - from.1).abs()).max(1);
        for step in 0..=steps {
            let along =
                |a: i32, b: i32| a + ((b - a) * step + (b - a).signum() * steps / 2) / steps;
            let (x, y) = (along(from.0, to.0), along(from.1, to.1));
            for (dx, dy) in (0..thickness).flat_map(|dx| (0..thickness).map(move |dy| (dx, dy))) {
                self.dot(x + dx, y + dy, colour);
            }
        }
    }

    /// Dots that words take across.
    pub fn width_of(words: &str) -> i32 {
        words.chars().count() as i32 * ADVANCE - SCALE
    }

    /// Words with their upper left corner at a point.
    pub fn words(&mut self, x: i32, y: i32, words: &str) {
        for (index, letter) in words.chars().enumerate() {
            let rows = glyph(letter);
            let left = x + index as i32 * ADVANCE;
            for (row, bits) in rows.into_iter().enumerate() {
                for column in (0..3).filter(|column| bits >> (2 - column) & 1 == 1) {
                    let (x, y) = (left + column * SCALE, y + row as i32 * SCALE);
                    for (dx, dy) in [(0, 0), (1, 0), (0, 1), (1, 1)] {
                        self.dot(x + dx, y + dy, INK);
                    }
                }
            }
        }
    }

    /// The picture encoded as PNG.
    pub fn png(&self) -> Vec<u8> {
        let mut bytes = b"\x89PNG\r\n\x1a\n".to_vec();
        let mut header = Vec::new();
        header.extend_from_slice(&(self.width as u32).to_be_bytes());
        header.extend_from_slice(&(self.height as u32).to_be_bytes());
        // Four bits a dot, palette, the only compression, filter and order there are.
        header.extend_from_slice(&[4, 3, 0, 0, 0]);
        chunk(&mut bytes, b"IHDR", &header);
        chunk(&mut bytes, b"PLTE", self.palette.as_flattened());
        let mut rows = Vec::new();
        for row in self.dots.chunks_exact(self.width as usize) {
            rows.push(0);
            rows.extend(row.chunks(2).map(|pair| pair[0] << 4 | pair.get(1).unwrap_or(&0)));
        }
        chunk(&mut bytes, b"IDAT", &stored(&rows));
        chunk(&mut bytes, b"IEND", &[]);
        bytes
    }
}

/// A zlib stream that holds `data` as it is.
fn stored(data: &[u8]) -> Vec<u8> {
    let mut out = vec![0x78, 0x01];
    let mut blocks = data.chunks(0xFFFF).peekable();
    while let Some(block) = blocks.next() {
        out.push(u8::from(blocks.peek().is_none()));
        let length = block.len() as u16;
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(&(!length).to_le_bytes());
        out.extend_from_slice(block);
    }
    let (mut a, mut b) = (1u32, 0u32);
    for byte in data {
        a = (a + u32::from(*byte)) % 65_521;
        b = (b + a) % 65_521;
    }
    out.extend_from_slice(&(b << 16 | a).to_be_bytes());
    out
}

fn chunk(out: &mut Vec<u8>, kind: &[u8; 4], data: &[u8]) {
    out.extend_from_slice(&(data.len() as u32).to_be_bytes());
    let from = out.len();
    out.extend_from_slice(kind);
    out.extend_from_slice(data);
    let crc = crc32(&out[from..]);
    out.extend_from_slice(&crc.to_be_bytes());
}

fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0xEDB8_8320 } else { crc >> 1 };
        }
    }
    !crc
}

/// Rows of a letter from the top, three dots each; small letters look like capitals.
fn glyph(letter: char) -> [u8; 5] {
    match letter.to_ascii_uppercase() {
        '0' => [7, 5, 5, 5, 7],
        '1' => [2, 6, 2, 2, 7],
        '2' => [7, 1, 7, 4, 7],
        '3' => [7, 1, 3, 1, 7],
        '4' => [5, 5, 7, 1, 1],
        '5' => [7, 4, 7, 1, 7],
        '6' => [7, 4, 7, 5, 7],
        '7' => [7, 1, 1, 2, 2],
        '8' => [7, 5, 7, 5, 7],
        '9' => [7, 5, 7, 1, 7],
        'A' => [2, 5, 7, 5, 5],
        'B' => [6, 5, 6, 5, 6],
        'C' => [3, 4, 4, 4, 3],
        'D' => [6, 5, 5, 5, 6],
        'E' => [7, 4, 6, 4, 7],
        'F' => [7, 4, 6, 4, 4],
        'G' => [3, 4, 5, 5, 3],
        'H' => [5, 5, 7, 5, 5],
        'I' => [7, 2, 2, 2, 7],
        'J' => [1, 1, 1, 5, 2],
        'K' => [5, 5, 6, 5, 5],
        'L' => [4, 4, 4, 4, 7],
        'M' => [5, 7, 7, 5, 5],
        'N' => [6, 5, 5, 5, 5],
        'O' => [2, 5, 5, 5, 2],
        'P' => [6, 5, 6, 4, 4],
        'Q' => [2, 5, 5, 6, 3],
        'R' => [6, 5, 6, 5, 5],
        'S' => [3, 4, 2, 1, 6],
        'T' => [7, 2, 2, 2, 2],
        'U' => [5, 5, 5, 5, 7],
        'V' => [5, 5, 5, 5, 2],
        'W' => [5, 5, 7, 7, 5],
        'X' => [5, 5, 2, 5, 5],
        'Y' => [5, 5, 2, 2, 2],
        'Z' => [7, 1, 2, 4, 7],
        '.' => [0, 0, 0, 0, 2],
        ',' => [0, 0, 0, 2, 4],
        ':' => [0, 2, 0, 2, 0],
        ';' => [0, 2, 0, 2, 4],
        '-' => [0, 0, 7, 0, 0],
        '+' => [0, 2, 7, 2, 0],
        '=' => [0, 7, 0, 7, 0],
        '/' => [1, 1, 2, 4, 4],
        '(' => [1, 2, 2, 2, 1],
        ')' => [4, 2, 2, 2, 4],
        '%' => [5, 1, 2, 4, 5],
        '<' => [1, 2, 4, 2, 1],
        '>' => [4, 2, 1, 2, 4],
        '\'' => [2, 2, 0, 0, 0],
        '_' => [0, 0, 0, 0, 7],
        ' ' => [0; 5],
        _ => [7, 7, 7, 7, 7],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_match_known_ones() {
        assert_eq!(crc32(b"123456789"), 0xCBF4_3926);
        assert_eq!(stored(b"Wikipedia")[16..], [0x11, 0xE6, 0x03, 0x98]);
    }

    #[test]
    fn names_with_underscores_have_letters_of_their_own() {
        let unknown = glyph('\u{1F514}');
        assert!("p99_us".chars().all(|letter| glyph(letter) != unknown));
    }

    #[test]
    fn lines_and_words_leave_dots_where_they_should() {
        let mut canvas = Canvas::new(40, 20, &["#102030"]);
        canvas.line((0, 0), (39, 19), PALE + 1, 1);
        canvas.line((-5, 50), (90, 2), INK, 2);
        assert_eq!(canvas.dots[0], PALE + 1);
        assert_eq!(canvas.dots[19 * 40 + 39], PALE + 1);
        let before = canvas.dots.iter().filter(|dot| **dot == INK).count();
        canvas.words(2, 2, "1");
        assert!(canvas.dots.iter().filter(|dot| **dot == INK).count() > before);
        assert_eq!((Canvas::width_of("ab"), canvas.palette[3]), (14, [0x10, 0x20, 0x30]));
    }
}
