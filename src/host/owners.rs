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
    let mut count = 0;
    for line in map.lines() {
        let length = line.split_whitespace().nth(2).unwrap_or_default();
        count += length.parse::<u64>().unwrap_or_default();
    }
    count >= u64::from(u32::MAX)
}

/// True if a group is the user's own: it has the user's name and no other member. An unlisted group must have the user's
/// number, since directory services and containers list nothing here.
pub fn is_own_group(host: &Host, gid: u32) -> bool {
    let [groups, users] = LISTS.map(|list| host.read_text(Path::new(list)).unwrap_or_default());
    let mut own_name = None;
    for user in users.lines().map(fields) {
        if number(&user, 2) == Some(host.uid) {
            own_name = own_name.or(Some(user[0]));
        } else if number(&user, 3) == Some(gid) {
            return false;
        }
    }
    let mut is_listed = false;
    for group in groups.lines().map(fields) {
        if number(&group, 2) != Some(gid) {
            continue;
        }
        is_listed = true;
        let members = group.get(3).copied().unwrap_or_default();
        let has_others = members
            .split(',')
            .any(|member| !member.is_empty() && Some(member) != own_name);
        if has_others || Some(group[0]) != own_name {
            return false;
        }
    }
    is_listed || gid == host.uid
}

/// `alice:x:1000:1000:…`
fn fields(line: &str) -> Vec<&str> {
    line.split(':').map(str::trim).collect()
}

fn number(fields: &[&str], index: usize) -> Option<u32> {
    fields.get(index)?.parse().ok()
}
