//! Changes bytes, the same way for the same seed.

/// Splitmix64.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    pub fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }
}

/// Numbers at which code that counts goes wrong.
const NUMBERS: [u64; 14] = [
    0,
    1,
    2,
    7,
    0x7f,
    0xff,
    0xffff,
    0x1_0000,
    0x7fff_ffff,
    0xffff_ffff,
    1 << 32,
    i64::MAX as u64,
    1 << 63,
    u64::MAX,
];

/// Text at which code that reads tables and JSON goes wrong.
const WORDS: [&str; 24] = [
    "18446744073709551615",
    "9223372036854775808",
    "-9223372036854775808",
    "4294967296",
    "1e999",
    "-1e-999",
    "NaN",
    "inf",
    "null",
    "true",
    "[]",
    "{}",
    "\"",
    "\"\"",
    ",",
    ",,",
    "\n",
    "\r",
    "::",
    "\t",
    "\u{feff}",
    "\\u0000",
    "../../x",
    "é",
];

/// Makes one to a few changes.
pub fn mutate(random: &mut Random, bytes: &mut Vec<u8>) {
    for _ in 0..1 + random.below(4) {
        let at = random.below(bytes.len() + 1);
        let left = bytes.len() - at;
        match random.below(10) {
            0 if left > 0 => bytes[at] ^= 1 << random.below(8),
            1 if left > 0 => bytes[at] = random.next() as u8,
            2 if left >= 8 => {
                let number = NUMBERS[random.below(NUMBERS.len())];
                bytes[at..at + 8].copy_from_slice(&number.to_le_bytes());
            }
            3 if left >= 4 => {
                let number = NUMBERS[random.below(NUMBERS.len())] as u32;
                let at = at / 4 * 4; // our numbers are aligned
                bytes[at..at + 4].copy_from_slice(&number.to_le_bytes());
            }
            4 => {
                let word = WORDS[random.below(WORDS.len())];
                bytes.splice(at..at, word.bytes());
            }
            5 => number_for_number(random, bytes, at),
            6 => drop(bytes.drain(at..at + random.below(left.min(64) + 1))),
            7 => {
                let copied = bytes[at..at + random.below(left.min(200) + 1)].to_vec();
                let to = random.below(bytes.len() + 1);
                bytes.splice(to..to, copied);
            }
            8 if random.below(4) == 0 => bytes.truncate(at),
            _ if left > 1 => bytes.swap(at, at + 1),
            _ => {}
        }
    }
}

/// Puts another number in the place of the decimal one at or after `at`.
fn number_for_number(random: &mut Random, bytes: &mut Vec<u8>, at: usize) {
    let Some(start) = bytes[at..].iter().position(u8::is_ascii_digit).map(|n| n + at) else { return };
    let length = bytes[start..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let number = NUMBERS[random.below(NUMBERS.len())].to_string();
    bytes.splice(start..start + length, number.bytes());
}
