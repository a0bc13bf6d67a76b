//! What is to happen, as one line of text.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use crate::place::Place;
use crate::way::Way;

/// How long a store hangs that is told to.
const HANG: Duration = Duration::from_millis(1500);

/// What is to happen in this process.
///
/// As text: `log=FILE;hang=MS;machine=NAME;boot=NAME;hurt=WAY@POINT#N`, each part as often as it makes sense, the last
/// of one kind counting. POINT is a name with what it is about, as the log has it: `store.put.before run/head.json`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Orders {
    /// The file to which every point that is passed is appended.
    pub log: Option<PathBuf>,
    /// What hurts, where.
    pub aims: Vec<Aim>,
    /// How long a hanging store hangs.
    pub hang: Duration,
    /// Where this process says that it runs.
    pub place: Place,
}

impl Default for Orders {
    fn default() -> Self {
        Self {
            log: None,
            aims: Vec::new(),
            hang: HANG,
            place: Place::default(),
        }
    }
}

/// One hurt: at the nth time that a point is passed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Aim {
    /// How.
    pub way: Way,
    /// The point, with what it is about.
    pub point: String,
    /// The how manieth time, from 1.
    pub nth: usize,
}

/// Why orders can't be followed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OrdersError {
    /// No such way.
    #[error("there is no way `{0}` to hurt")]
    NoWay(String),
    /// A part is none.
    #[error("`{0}` is no order")]
    NoOrder(String),
}

impl fmt::Display for Aim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}#{}", self.way, self.point, self.nth)
    }
}

impl FromStr for Aim {
    type Err = OrdersError;

    fn from_str(text: &str) -> Result<Self, OrdersError> {
        let none = || OrdersError::NoOrder(text.to_owned());
        let (way, rest) = text.split_once('@').ok_or_else(none)?;
        let (point, nth) = rest.rsplit_once('#').ok_or_else(none)?;
        let nth = nth.parse().ok().filter(|nth| *nth > 0).ok_or_else(none)?;
        Ok(Self {
            way: way.parse()?,
            point: point.to_owned(),
            nth,
        })
    }
}

impl fmt::Display for Orders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = vec![format!("hang={}", self.hang.as_millis())];
        if let Some(log) = &self.log {
            parts.push(format!("log={}", log.display()));
        }
        if let Some(machine) = &self.place.machine {
            parts.push(format!("machine={machine}"));
        }
        if let Some(boot) = &self.place.boot {
            parts.push(format!("boot={boot}"));
        }
        parts.extend(self.aims.iter().map(|aim| format!("hurt={aim}")));
        f.write_str(&parts.join(";"))
    }
}

impl FromStr for Orders {
    type Err = OrdersError;

    fn from_str(text: &str) -> Result<Self, OrdersError> {
        let mut orders = Self::default();
        for part in text.split(';').filter(|part| !part.is_empty()) {
            let none = || OrdersError::NoOrder(part.to_owned());
            let (name, value) = part.split_once('=').ok_or_else(none)?;
            match name {
                "log" => orders.log = Some(value.into()),
                "hang" => {
                    orders.hang = Duration::from_millis(value.parse().map_err(|_| none())?);
                }
                "machine" => orders.place.machine = Some(value.to_owned()),
                "boot" => orders.place.boot = Some(value.to_owned()),
                "hurt" => orders.aims.push(value.parse()?),
                _ => return Err(none()),
            }
        }
        Ok(orders)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_read_as_they_are_written() {
        let text = "hang=20;log=/tmp/x;machine=other;boot=later;hurt=kill@store.put.before run/head.json#3;hurt=int@child.event apply_start a[\"x\"]#1";
        let orders: Orders = text.parse().unwrap();
        assert_eq!(orders.to_string(), text);
        assert_eq!(orders.aims[0].nth, 3);
        assert_eq!(orders.aims[1].point, "child.event apply_start a[\"x\"]");
    }

    #[test]
    fn what_is_no_order_is_refused() {
        for text in [
            "hurt=kill",
            "hurt=kill@x",
            "hurt=kill@x#0",
            "hurt=bite@x#1",
            "nothing",
            "a=b",
            "hang=long",
        ] {
            assert!(text.parse::<Orders>().is_err(), "{text}");
        }
    }
}
