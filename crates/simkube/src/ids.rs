//! Everything that would be random elsewhere, from one seed.

/// A small deterministic generator (splitmix64), and the counter behind uids.
#[derive(Clone, Debug)]
pub(crate) struct Ids {
    state: u64,
    uids: u64,
    addresses: u32,
    containers: u64,
}

/// Letters that the API server puts into generated names: no vowels, no look-alikes.
const NAME_LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

impl Ids {
    pub fn new(seed: u64) -> Ids {
        Ids {
            state: seed,
            uids: 0,
            addresses: 0,
            containers: 0,
        }
    }

    pub fn random(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A uid that reads as a version 4 UUID and counts up, so that traces stay readable.
    pub fn uid(&mut self) -> String {
        self.uids += 1;
        format!("00000000-0000-4000-8000-{:012x}", self.uids)
    }

    /// A uid that is in use already: those to come are higher.
    pub fn taken(&mut self, uid: &str) {
        let number = uid.strip_prefix("00000000-0000-4000-8000-");
        let number = number.and_then(|n| u64::from_str_radix(n, 16).ok());
        self.uids = self.uids.max(number.unwrap_or(0));
    }

    pub fn name_suffix(&mut self) -> String {
        let mut random = self.random();
        let letters = NAME_LETTERS.len() as u64;
        (0..5)
            .map(|_| {
                let letter = NAME_LETTERS[(random % letters) as usize];
                random /= letters;
                char::from(letter)
            })
            .collect()
    }

    pub fn address(&mut self) -> String {
        self.addresses += 1;
        format!(
            "10.{}.{}.{}",
            self.addresses >> 16 & 255,
            self.addresses >> 8 & 255,
            self.addresses & 255
        )
    }

    pub fn container_id(&mut self) -> String {
        self.containers += 1;
        format!("containerd://{:064x}", self.containers)
    }
}
