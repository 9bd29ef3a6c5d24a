//! Machine code as text, read for what decides a kernel's time: its loops, and how many
//! instructions of each class are in them. Two writings are understood: LLVM's disassembly, and the
//! listing of the driver's own compiler, which stands in where LLVM does not know a chip.

use serde::{Deserialize, Serialize};

/// What an instruction keeps busy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// A product of matrices.
    Matrix,
    /// Multiply-adds of vectors.
    Fma,
    /// Exponentials, roots, reciprocals: a quarter of the rate.
    Slow,
    /// Other arithmetic of vectors.
    Valu,
    Lds,
    Memory,
    Scalar,
    /// Barriers, waits and hints.
    Wait,
}

/// One instruction.
#[derive(Clone, Debug)]
pub struct Instr {
    pub name: String,
    pub class: Class,
    /// What a wait waits for; of others nothing.
    pub waits: Waits,
}

/// What an instruction waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    pub lds: bool,
    pub memory: bool,
    /// How many loads may be on their way afterwards.
    pub left: usize,
    pub barrier: bool,
}

/// Instructions of a loop by class. Fractions come from loops that do not run every time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Mix {
    pub matrix: f64,
    pub fma: f64,
    pub slow: f64,
    pub valu: f64,
    pub lds: f64,
    pub memory: f64,
    pub scalar: f64,
    pub wait: f64,
    /// Bytes a lane reads and writes in LDS and in memory.
    pub lds_bytes: f64,
    pub memory_bytes: f64,
    /// Times that a wave must wait for LDS, and for memory it asked for just before.
    pub lds_stalls: f64,
    pub memory_stalls: f64,
    /// Times that it waits for memory it asked for in the round before.
    pub carried_stalls: f64,
    /// Products and other vector instructions between the asking and the waiting, of the stalls for
    /// memory.
    pub covering_matrix: f64,
    pub covering_vector: f64,
    pub barriers: f64,
}

/// A piece of the code from a label to the branch back to it: instructions `start .. end`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loop {
    pub start: usize,
    pub end: usize,
    /// The innermost loop around it, by its number.
    pub parent: Option<usize>,
}

/// A kernel's code.
#[derive(Clone, Debug, Default)]
pub struct Code {
    pub instrs: Vec<Instr>,
    /// Inner loops come after the ones around them.
    pub loops: Vec<Loop>,
    /// What branches within a loop skip that has a barrier: steps that all lanes of a workgroup
    /// take or leave together, such as the seldom scaling of attention's sums.
    seldom: Vec<std::ops::Range<usize>>,
    /// What a wave skips where none of its lanes goes there.
    arms: Vec<std::ops::Range<usize>>,
    /// The part of the waves that go there.
    arm_share: f64,
}

/// How often such a step is taken.
const SELDOM: f64 = 0.1;

impl Code {
    pub fn parse(text: &str) -> Code {
        let mut instrs = Vec::new();
        let mut labels = Vec::new();
        let mut branches = Vec::new();
        for line in text.lines() {
            if let Some(label) = label(line) {
                labels.push((label, instrs.len()));
            } else if let Some((instr, target)) = instruction(line) {
                branches.extend(target.map(|t| (instrs.len(), t)));
                instrs.push(instr);
            }
        }
        let start_of = |name: &str| labels.iter().find(|(l, _)| l == name).map(|(_, at)| *at);
        let mut loops: Vec<Loop> = Vec::new();
        for (at, target) in &branches {
            let at = *at;
            let Some(start) = start_of(target).filter(|&start| start <= at) else {
                continue;
            };
            // Several branches back to one label are one loop.
            match loops.iter_mut().find(|l| l.start == start) {
                Some(found) => found.end = found.end.max(at + 1),
                None => loops.push(Loop {
                    start,
                    end: at + 1,
                    parent: None,
                }),
            }
        }
        loops.sort_by_key(|l| (l.start, usize::MAX - l.end));
        for i in 0..loops.len() {
            let inside = |outer: &Loop| outer.start <= loops[i].start && loops[i].end <= outer.end;
            loops[i].parent = (0..i).rev().find(|&j| inside(&loops[j]));
        }
        let skips = branches.iter().filter_map(|(at, target)| {
            let (from, to) = (at + 1, start_of(target)?);
            let around = |l: &&Loop| l.start <= *at && *at < l.end;
            let mut around = loops.iter().filter(around).peekable();
            // A branch that leaves a loop skips nothing of a round.
            let within = around.peek().is_some() && around.all(|l| to < l.end);
            let barrier = instrs
                .get(from..to)?
                .iter()
                .any(|i: &Instr| i.waits.barrier);
            (barrier && within).then_some(from..to)
        });
        let seldom = skips.collect();
        let arms = branches.iter().filter_map(|(at, target)| {
            let to = start_of(target).filter(|to| at < to)?;
            (instrs[*at].name == "s_cbranch_execz").then_some(at + 1..to)
        });
        let arms = arms.collect();
        Code {
            instrs,
            loops,
            seldom,
            arms,
            arm_share: 1.0,
        }
    }

    /// The same code, of which branches that some waves skip are taken by this part of them.
    #[must_use]
    pub fn with_arms(self, arm_share: f64) -> Code {
        Code { arm_share, ..self }
    }

    /// The loop where most of the products are: the outermost one with the most of them.
    pub fn main_loop(&self) -> Option<usize> {
        let products = |l: &Loop| {
            let code = &self.instrs[l.start..l.end];
            let of = |class| code.iter().filter(|i| i.class == class).count();
            (of(Class::Matrix), of(Class::Fma))
        };
        let outer = (0..self.loops.len()).filter(|&i| self.loops[i].parent.is_none());
        let best = outer.max_by_key(|&i| (products(&self.loops[i]), usize::MAX - i))?;
        (products(&self.loops[best]) != (0, 0)).then_some(best)
    }

    /// What a round of a loop runs, where each loop inside it runs `trips` times a round of the one
    /// around it.
    pub fn round(&self, which: usize, trips: &dyn Fn(usize) -> f64) -> Mix {
        let l = &self.loops[which];
        let weight = |at: usize| {
            let inner = |i: &usize| self.loops[*i].start <= at && at < self.loops[*i].end;
            let within = (0..self.loops.len()).filter(inner);
            let within = within.filter(|&i| i != which && self.is_inside(i, which));
            let often = if self.seldom.iter().any(|s| s.contains(&at)) {
                SELDOM
            } else if self.arms.iter().any(|s| s.contains(&at)) {
                self.arm_share
            } else {
                1.0
            };
            within.map(trips).product::<f64>() * often
        };
        self.mix(l.start..l.end, &weight)
    }

    /// What runs once: everything outside the loop.
    pub fn outside(&self, which: Option<usize>) -> Mix {
        let weight = |at: usize| {
            let l = which.map(|w| &self.loops[w]);
            f64::from(!l.is_some_and(|l| l.start <= at && at < l.end))
        };
        self.mix(0..self.instrs.len(), &weight)
    }

    pub fn is_inside(&self, inner: usize, outer: usize) -> bool {
        let mut at = self.loops[inner].parent;
        while let Some(i) = at {
            if i == outer {
                return true;
            }
            at = self.loops[i].parent;
        }
        false
    }

    /// Whether no loop is inside this one.
    pub fn is_innermost(&self, which: usize) -> bool {
        self.loops.iter().all(|l| l.parent != Some(which))
    }

    fn mix(&self, range: std::ops::Range<usize>, weight: &dyn Fn(usize) -> f64) -> Mix {
        let mut mix = Mix::default();
        let (mut lds_asked, mut memory_asked, mut any_memory) = (false, false, false);
        // Loads from memory on their way, and what had been done when the last was asked for.
        let (mut under_way, mut done_before) = (0, (0.0, 0.0));
        for at in range {
            let (instr, w) = (&self.instrs[at], weight(at));
            if w == 0.0 {
                continue;
            }
            let bytes = f64::from(bytes(&instr.name)) * w;
            match instr.class {
                Class::Matrix => mix.matrix += w,
                Class::Fma => mix.fma += w,
                Class::Slow => mix.slow += w,
                Class::Valu => mix.valu += w,
                Class::Scalar => mix.scalar += w,
                Class::Lds => {
                    mix.lds += w;
                    mix.lds_bytes += bytes;
                    lds_asked |= is_load(&instr.name);
                }
                Class::Memory => {
                    mix.memory += w;
                    mix.memory_bytes += bytes;
                    if is_load(&instr.name) {
                        (memory_asked, any_memory) = (true, true);
                        under_way += 1;
                        done_before = (mix.matrix, mix.vector());
                    }
                }
                Class::Wait => {
                    mix.wait += w;
                    mix.barriers += if instr.waits.barrier { w } else { 0.0 };
                    if instr.waits.lds && lds_asked {
                        mix.lds_stalls += w;
                        lds_asked = false;
                    }
                    let left = instr.waits.left;
                    if instr.waits.memory && memory_asked && under_way > left {
                        mix.memory_stalls += w;
                        mix.covering_matrix += mix.matrix - done_before.0;
                        mix.covering_vector += mix.vector() - done_before.1;
                        (memory_asked, under_way) = (false, left);
                    } else if instr.waits.memory && !any_memory {
                        mix.carried_stalls = mix.carried_stalls.max(w);
                    }
                }
            }
        }
        mix
    }
}

impl Mix {
    /// Vector instructions that are no matrix products.
    fn vector(&self) -> f64 {
        self.fma + self.valu + self.slow
    }
}

/// `BB12` or `BB12:` at the start of a line.
fn label(line: &str) -> Option<String> {
    let name = line.trim_end().trim_end_matches(':');
    let number = name.strip_prefix("BB")?;
    let is_number = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
    is_number.then(|| name.to_owned())
}

/// An instruction, and where it branches to.
fn instruction(line: &str) -> Option<(Instr, Option<String>)> {
    // Mesa copies halves of registers, which LLVM only knows where it is told that there are such.
    // A second word holds operands alone.
    if let Some((_, word)) = line.split_once("(invalid instruction)") {
        let is_second = word.trim_start_matches([' ', ';']).starts_with('0');
        let copy = Instr {
            name: "v_mov_b16".to_owned(),
            class: Class::Valu,
            waits: Waits::default(),
        };
        return (!is_second).then_some((copy, None));
    }
    let text = line.strip_prefix('\t')?.trim();
    let text = text.split(" ; ").next()?.trim();
    // The compiler's listing says results first: `v1: %8:v[1] = v_lshrrev_b32 3, %1:v[0]`.
    let text = text.rsplit_once(" = ").map_or(text, |(_, right)| right);
    let name = text.split_whitespace().next()?;
    if !name.starts_with(['s', 'v', 'd', 'b', 'g', 'f', 'i', 't', 'l']) || !name.contains('_') {
        return None;
    }
    let branch = name.starts_with("s_branch") || name.starts_with("s_cbranch");
    let target = branch.then(|| text.rsplit([' ', ':']).next().unwrap_or("").to_owned());
    let instr = Instr {
        name: name.to_owned(),
        class: class(name),
        waits: waits(name, text),
    };
    Some((instr, target))
}

fn waits(name: &str, text: &str) -> Waits {
    // RDNA 4 has two instructions for a barrier, of which one waits.
    if name == "s_barrier" || name == "s_barrier_wait" {
        return Waits {
            barrier: true,
            ..Waits::default()
        };
    }
    let is_wait = name.starts_with("s_wait");
    Waits {
        lds: is_wait && ["lgkmcnt", "dscnt"].iter().any(|w| text.contains(w)),
        memory: is_wait && MEMORY_WAITS.iter().any(|w| text.contains(w)),
        left: loads_left(text),
        barrier: false,
    }
}

const MEMORY_WAITS: [&str; 2] = ["vmcnt", "loadcnt"];

/// The count of a wait for memory: `vmcnt(3)`, `s_wait_loadcnt 0x3`, or the upper byte of
/// `s_wait_loadcnt_dscnt 0x301`.
fn loads_left(text: &str) -> usize {
    let Some((_, after)) = MEMORY_WAITS.iter().find_map(|w| text.split_once(w)) else {
        return 0;
    };
    let both = after.starts_with("_dscnt");
    let digits = after
        .trim_start_matches("_dscnt")
        .trim_start_matches(['(', ' ']);
    let digits = digits.split([')', ' ', '&']).next().unwrap_or_default();
    let count = match digits.strip_prefix("0x") {
        Some(hex) => usize::from_str_radix(hex, 16),
        None => digits.parse(),
    };
    count.map_or(0, |n| if both { n >> 8 } else { n })
}

fn class(name: &str) -> Class {
    let starts = |words: &[&str]| words.iter().any(|w| name.starts_with(w));
    if starts(&["v_wmma", "v_swmmac", "v_mfma"]) {
        Class::Matrix
    } else if starts(&[
        "v_fma",
        "v_mad_f",
        "v_mac_f",
        "v_pk_fma",
        "v_dot",
        "v_dual_fma",
    ]) {
        Class::Fma
    } else if starts(&[
        "v_exp", "v_log", "v_rcp", "v_rsq", "v_sqrt", "v_sin", "v_cos", "v_mul_lo", "v_mul_hi",
    ]) {
        Class::Slow
    } else if name.starts_with("v_") {
        Class::Valu
    } else if starts(&["ds_", "lds_"]) {
        Class::Lds
    } else if starts(&[
        "buffer_", "global_", "flat_", "scratch_", "image_", "tbuffer_",
    ]) {
        Class::Memory
    } else if starts(&[
        "s_wait",
        "s_barrier",
        "s_delay",
        "s_nop",
        "s_clause",
        "s_endpgm",
    ]) {
        Class::Wait
    } else {
        Class::Scalar
    }
}

fn is_load(name: &str) -> bool {
    name.contains("load") || name.contains("read")
}

/// Bytes that a lane moves, at least a word: less takes no less time.
fn bytes(name: &str) -> u32 {
    let pairs = if name.contains("read2") || name.contains("write2") || name.contains("_2addr") {
        2
    } else {
        1
    };
    let sizes = [
        ("dwordx4", 16),
        ("dwordx3", 12),
        ("dwordx2", 8),
        ("dword", 4),
        ("b128", 16),
        ("b96", 12),
        ("b64", 8),
        ("b32", 4),
    ];
    let size = sizes.iter().find(|(word, _)| name.contains(word));
    pairs * size.map_or(4, |(_, bytes)| *bytes)
}

#[cfg(test)]
mod tests;
