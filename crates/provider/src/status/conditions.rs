//! Conditions of a declared thing. Time is passed in; a condition that says the same keeps its time.

/// What a condition is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConditionKind {
    /// The files are rendered.
    Rendered,
    /// They are applied.
    Applied,
    /// What was applied is fit for use.
    Ready,
    /// Machines are being given another version.
    UpgradeProgressing,
    /// What stands is not what was applied.
    Drifted,
}

/// Whether it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Truth {
    /// It does.
    True,
    /// It does not.
    False,
    /// Nobody knows.
    Unknown,
}

/// One condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// What it is about.
    pub kind: ConditionKind,
    /// Whether it holds.
    pub status: Truth,
    /// Why, in one word.
    pub reason: String,
    /// Why, for people.
    pub message: String,
    /// When `status` last became what it is.
    pub last_transition_time: String,
    /// Which generation of the declaration was looked at.
    pub observed_generation: u64,
}

/// The conditions of one thing, one of each kind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Conditions(Vec<Condition>);

impl Conditions {
    /// Sets a condition. Its time stays where its status does, and a look at an older generation changes nothing.
    pub fn set(&mut self, condition: Condition) {
        match self.0.iter_mut().find(|known| known.kind == condition.kind) {
            None => {
                self.0.push(condition);
                self.0.sort_by_key(|condition| condition.kind);
            }
            Some(known) if known.observed_generation > condition.observed_generation => {}
            Some(known) if known.status == condition.status => {
                let last_transition_time = std::mem::take(&mut known.last_transition_time);
                *known = Condition {
                    last_transition_time,
                    ..condition
                };
            }
            Some(known) => *known = condition,
        }
    }

    /// Returns the condition of a kind.
    #[must_use]
    pub fn get(&self, kind: ConditionKind) -> Option<&Condition> {
        self.0.iter().find(|condition| condition.kind == kind)
    }

    /// Returns every one, in the order of their kinds.
    pub fn iter(&self) -> impl Iterator<Item = &Condition> {
        self.0.iter()
    }
}
