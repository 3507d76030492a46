//! The groups of a user, as far as the files of this machine list them, and owners outside of a user namespace.

use std::path::Path;

use super::Host;

/// The files that list groups and users.
pub const LISTS: [&str; 2] = ["/etc/group", "/etc/passwd"];

/// The kernel shows this owner for each that the user namespace does not map.
pub const UNMAPPED: u32 = 65534;
/// The file that tells which owners are mapped.
pub const UID_MAP: &str = "/proc/self/uid_map";

/// True if the user namespace of this process maps every owner, so that [`UNMAPPED`] is a user like any other. A container
/// without root may map that number as well as leave out others.
pub fn maps_everybody(host: &Host) -> bool {
    let Ok(map) = host.read_text(Path::new(UID_MAP)) else {
        return true;
    };
    let length = |line: &str| line.split_whitespace().nth(2)?.parse::<u64>().ok();
    map.lines().filter_map(length).sum::<u64>() >= u64::from(u32::MAX)
}

/// True if a group is the user's own: it has the user's name and no other member. An unlisted group must have the user's
/// number, since directory services and containers list nothing here.
pub fn is_own_group(host: &Host, gid: u32) -> bool {
    let [groups, users] = LISTS.map(|list| host.read_text(Path::new(list)).unwrap_or_default());
    let groups: Vec<Vec<&str>> = groups.lines().map(fields).collect();
    let users: Vec<Vec<&str>> = users.lines().map(fields).collect();
    let number =
        |entry: &[&str], at: usize| entry.get(at).and_then(|text| text.parse::<u32>().ok());
    let is_user = |entry: &&Vec<&str>| number(entry, 2) == Some(host.uid);
    if users
        .iter()
        .any(|user| number(user, 3) == Some(gid) && !is_user(&user))
    {
        return false;
    }
    let mut same = groups
        .iter()
        .filter(|group| number(group, 2) == Some(gid))
        .peekable();
    if same.peek().is_none() {
        return gid == host.uid;
    }
    let Some(name) = users.iter().find(is_user).map(|user| user[0]) else {
        return false;
    };
    let members = |group: &Vec<&str>| {
        group.get(3).is_none_or(|list| {
            list.split(',')
                .all(|member| member.is_empty() || member == name)
        })
    };
    same.all(|group| group[0] == name && members(group))
}

/// `alice:x:1000:1000:…`
fn fields(line: &str) -> Vec<&str> {
    line.split(':').map(str::trim).collect()
}
