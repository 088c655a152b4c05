//! Topic patterns. Those without wildcards are found by their whole key; the others are one trie, walked by a message's
//! key with all states at once.
//!
//! A step from word to word visits each node of the trie once at most, however many `#` the patterns have: the cost is
//! bounded by words times nodes in reach, where trying one `#` after the other would be exponential.

use std::sync::Arc;

use foldhash::fast::FixedState;
use slab::Slab;

use super::edges::{DirectTable, Edge, Edges, Map, remove_edge};
use crate::planted::{Bug, is_planted};

/// Most words of a message's key. A longer one matches no wildcard: without a bound, a key of 100,000 dots would keep the
/// broker busy for everybody else.
pub const KEY_WORDS_MAX: usize = 1_024;

const NONE: u32 = u32::MAX;
const ROOT: u32 = 0;

/// How a node is reached from its parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Word(u32),
    /// `*`
    One,
    /// `#`
    Many,
}

#[derive(Debug)]
struct Node {
    parent: u32,
    step: Step,
    /// The child of one word; kept here because most nodes have no other.
    first: (u32, u32),
    /// Number of children by word that are in the table of edges.
    more: u32,
    one: u32,
    many: u32,
    /// The last step at which this node was entered.
    seen: u64,
    edges: Edges,
}

impl Node {
    fn new(parent: u32, step: Step) -> Self {
        Self {
            parent,
            step,
            first: (NONE, NONE),
            more: 0,
            one: NONE,
            many: NONE,
            seen: 0,
            edges: Edges::new(),
        }
    }

    fn is_bare(&self) -> bool {
        self.edges.is_empty()
            && self.first.0 == NONE
            && self.more == 0
            && self.one == NONE
            && self.many == NONE
    }
}

/// A word that patterns use.
#[derive(Debug)]
struct Word {
    text: Arc<[u8]>,
    uses: u32,
}

/// See the module.
#[derive(Debug)]
pub(super) struct TopicTable {
    /// Patterns without wildcards, which most often are most of them.
    exact: DirectTable,
    nodes: Slab<Node>,
    /// Children by word beyond the first, by node and word.
    edges: Map<(u32, u32), u32>,
    words: Slab<Word>,
    word_ids: Map<Arc<[u8]>, u32>,
    stamp: u64,
    /// Nodes reached by the words so far, and by one word more.
    states: Vec<u32>,
    next: Vec<u32>,
}

/// The words of a key or pattern: none of an empty one, and one more than there are dots of any other.
fn words_of(key: &[u8]) -> impl Iterator<Item = &[u8]> {
    let is_empty = key.is_empty();
    key.split(|byte| *byte == b'.')
        .take(if is_empty { 0 } else { usize::MAX })
}

fn has_wildcard(pattern: &[u8]) -> bool {
    words_of(pattern).any(|word| matches!(word, b"*" | b"#"))
}

fn index(at: usize) -> u32 {
    u32::try_from(at).expect("the number of bindings and the length of their keys are bounded")
}

impl TopicTable {
    pub(super) fn new(hasher: &FixedState) -> Self {
        let mut nodes = Slab::new();
        nodes.insert(Node::new(NONE, Step::Many));
        Self {
            exact: DirectTable::new(hasher),
            nodes,
            edges: Map::with_hasher(hasher.clone()),
            words: Slab::new(),
            word_ids: Map::with_hasher(hasher.clone()),
            stamp: 0,
            states: Vec::new(),
            next: Vec::new(),
        }
    }

    pub(super) fn insert(&mut self, pattern: &[u8], edge: Edge) {
        if !has_wildcard(pattern) {
            return self.exact.insert(pattern, edge);
        }
        let mut at = ROOT;
        for word in words_of(pattern) {
            at = match word {
                b"*" => self.child(at, Step::One),
                // One `#` after the other means no more than one.
                b"#" if at != ROOT && self.node(at).step == Step::Many => at,
                b"#" => self.child(at, Step::Many),
                _ => {
                    let word = self.word(word);
                    self.child(at, Step::Word(word))
                }
            };
        }
        self.nodes[at as usize].edges.push(edge);
    }

    pub(super) fn remove(&mut self, pattern: &[u8], binding: u32) {
        if !has_wildcard(pattern) {
            return self.exact.remove(pattern, binding);
        }
        let mut at = ROOT;
        for word in words_of(pattern) {
            at = match word {
                b"*" => self.node(at).one,
                b"#" if at != ROOT && self.node(at).step == Step::Many => at,
                b"#" => self.node(at).many,
                _ => match self.word_ids.get(word) {
                    Some(word) => self.find_child(at, *word),
                    None => NONE,
                },
            };
            if at == NONE {
                return;
            }
        }
        remove_edge(&mut self.nodes[at as usize].edges, binding);
        self.prune(at);
    }

    /// Calls `each` for every binding whose pattern fits the key.
    pub(super) fn each_match(&mut self, key: &[u8], mut each: impl FnMut(Edge)) {
        self.exact.find(key).iter().copied().for_each(&mut each);
        if self.nodes.len() == 1 {
            return;
        }
        self.next.clear();
        self.stamp += 1;
        self.enter(ROOT);
        for (count, word) in words_of(key).enumerate() {
            if self.next.is_empty() || count == KEY_WORDS_MAX {
                return;
            }
            std::mem::swap(&mut self.states, &mut self.next);
            self.next.clear();
            self.stamp += 1;
            let word = self.word_ids.get(word).copied().unwrap_or(NONE);
            for index in 0..self.states.len() {
                self.advance(self.states[index], word);
            }
        }
        for at in &self.next {
            for edge in &self.nodes[*at as usize].edges {
                each(*edge);
            }
        }
    }

    #[inline]
    fn advance(&mut self, at: u32, word: u32) {
        let node = &self.nodes[at as usize];
        let is_many = at != ROOT
            && (node.step == Step::Many
                || is_planted(Bug::StarTakesMany) && node.step == Step::One);
        let (one, child) = (
            node.one,
            if word == NONE {
                NONE
            } else {
                self.find_child(at, word)
            },
        );
        if is_many {
            self.enter(at);
        }
        if child != NONE {
            self.enter(child);
        }
        if one != NONE {
            self.enter(one);
        }
    }

    /// A node is reached, and with it the `#` behind it, which may stand for no word at all.
    #[inline]
    fn enter(&mut self, at: u32) {
        let node = &mut self.nodes[at as usize];
        if node.seen == self.stamp {
            return;
        }
        node.seen = self.stamp;
        let many = node.many;
        self.next.push(at);
        if many != NONE {
            let node = &mut self.nodes[many as usize];
            if node.seen != self.stamp {
                node.seen = self.stamp;
                self.next.push(many);
            }
        }
    }

    fn node(&self, at: u32) -> &Node {
        &self.nodes[at as usize]
    }

    #[inline]
    fn find_child(&self, at: u32, word: u32) -> u32 {
        let node = self.node(at);
        if node.first.0 == word {
            node.first.1
        } else if node.more > 0 {
            self.edges.get(&(at, word)).copied().unwrap_or(NONE)
        } else {
            NONE
        }
    }

    /// The child behind a step, made when it is not there.
    fn child(&mut self, at: u32, step: Step) -> u32 {
        let found = match step {
            Step::One => self.node(at).one,
            Step::Many => self.node(at).many,
            Step::Word(word) => self.find_child(at, word),
        };
        if found != NONE {
            return found;
        }
        let child = index(self.nodes.insert(Node::new(at, step)));
        let node = &mut self.nodes[at as usize];
        match step {
            Step::One => node.one = child,
            Step::Many => node.many = child,
            Step::Word(word) => {
                self.words[word as usize].uses += 1;
                if node.first.0 == NONE {
                    node.first = (word, child);
                } else {
                    node.more += 1;
                    self.edges.insert((at, word), child);
                }
            }
        }
        child
    }

    /// The number of a word, given when it has none.
    fn word(&mut self, text: &[u8]) -> u32 {
        if let Some(word) = self.word_ids.get(text) {
            return *word;
        }
        let text: Arc<[u8]> = text.into();
        let word = index(self.words.insert(Word {
            text: Arc::clone(&text),
            uses: 0,
        }));
        self.word_ids.insert(text, word);
        word
    }

    /// Takes nodes out that lead to no binding any more, from this one upward.
    fn prune(&mut self, mut at: u32) {
        while at != ROOT && self.node(at).is_bare() {
            let Node { parent, step, .. } = self.nodes.remove(at as usize);
            let node = &mut self.nodes[parent as usize];
            match step {
                Step::One => node.one = NONE,
                Step::Many => node.many = NONE,
                Step::Word(word) => {
                    if node.first.0 == word {
                        node.first = (NONE, NONE);
                    } else {
                        node.more -= 1;
                        self.edges.remove(&(parent, word));
                    }
                    self.release(word);
                }
            }
            at = parent;
        }
    }

    fn release(&mut self, word: u32) {
        let entry = &mut self.words[word as usize];
        entry.uses -= 1;
        if entry.uses == 0 {
            let entry = self.words.remove(word as usize);
            self.word_ids.remove(&entry.text);
        }
    }

    /// Whether nothing is left but the root.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.exact.is_empty()
            && self.nodes.len() == 1
            && self.edges.is_empty()
            && self.words.is_empty()
            && self.word_ids.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::super::edges::Target;
    use super::*;

    const NOTHING: [u32; 0] = [];

    fn edge(binding: u32) -> Edge {
        Edge {
            binding,
            target: Target::Queue(binding),
        }
    }

    fn table(patterns: &[&str]) -> TopicTable {
        let mut table = TopicTable::new(&FixedState::with_seed(1));
        for (number, pattern) in patterns.iter().enumerate() {
            table.insert(pattern.as_bytes(), edge(index(number)));
        }
        table
    }

    fn matches(table: &mut TopicTable, key: &str) -> Vec<u32> {
        let mut found = Vec::new();
        table.each_match(key.as_bytes(), |edge| found.push(edge.binding));
        found.sort_unstable();
        found
    }

    #[test]
    fn rt_01_wildcards_stand_for_whole_words() {
        for (pattern, key, is_match) in [
            ("a.*.c.#", "a.b.c", true),
            ("a.*.c.#", "a.b.c.d.e", true),
            ("a.#.b", "a.b", true),
            ("a.#.b", "a.x.y.b", true),
            ("#", "a", true),
            ("#", "a.b.c", true),
            ("#.a", "a", true),
            ("a.#", "a", true),
            ("a.#", "ab", false),
            ("*.a", "a", false),
            ("a.*", "a", false),
            ("a.*", "a.b", true),
            ("a.*", "a.b.c", false),
            ("#.#", "x", true),
            ("*.#", "x", true),
            ("*.*", "x", false),
            // Empty words are words; an empty key has none.
            ("a..b", "a..b", true),
            ("a.*.b", "a..b", true),
            ("*", "", false),
            ("#", "", true),
            ("", "", true),
            ("", ".", false),
            ("*.*", ".", true),
            ("a.#.#.b", "a.b", true),
            ("#.*", "", false),
            ("#.*", "a", true),
        ] {
            let found = matches(&mut table(&[pattern]), key);
            assert_eq!(!found.is_empty(), is_match, "{pattern} on {key}");
            assert!(found.len() <= 1, "{pattern} on {key} twice");
        }
    }

    /// Counted by the nodes that are entered, which a clock could only guess at.
    #[test]
    fn rt_03_many_wildcards_cost_words_times_nodes() {
        let mut all = table(&["#.a.#.a.#.a.#.a.#.b"]);
        let key = vec!["a"; 80].join(".");
        let mut entered = 0;
        for _ in 0..1_000 {
            assert_eq!(matches(&mut all, &key), NOTHING);
            entered = entered.max(all.next.len().max(all.states.len()));
        }
        assert!(entered <= all.nodes.len(), "{entered} states at a time");
        assert_eq!(matches(&mut all, &format!("{key}.b")), [0]);

        let patterns: Vec<_> = (0..5_000).map(|n| format!("w{n}.#")).collect();
        let patterns: Vec<_> = patterns.iter().map(String::as_str).collect();
        let mut all = table(&patterns);
        assert_eq!(matches(&mut all, "w4321.x.y"), [4321]);
        assert!(all.states.len() <= 2, "others than the one are passed by");
    }

    #[test]
    fn a_key_of_too_many_words_matches_nothing() {
        let mut all = table(&["#"]);
        assert_eq!(matches(&mut all, &".".repeat(KEY_WORDS_MAX - 1)), [0]);
        assert_eq!(matches(&mut all, &".".repeat(KEY_WORDS_MAX)), NOTHING);
    }

    #[test]
    fn removal_leaves_nothing_behind() {
        let patterns = ["a.b", "a.#.b", "a.*", "#.#.b", "a.b.c", "", "*.#", "a.c"];
        let mut all = table(&patterns);
        for (number, pattern) in patterns.iter().enumerate() {
            all.remove(pattern.as_bytes(), index(number));
            assert!(!matches(&mut all, pattern).contains(&index(number)));
        }
        assert!(all.is_empty());
        all.remove(b"never.there", 0);
        assert!(all.is_empty());
    }
}
