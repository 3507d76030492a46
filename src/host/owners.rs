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
    let Ok(map) = host.read_text(Path::new(UID_MAP)) else { return true };
    let length = |line: &str| line.split_whitespace().nth(2)?.parse::<u64>().ok();
    map.lines().filter_map(length).sum::<u64>() >= u64::from(u32::MAX)
}

/// True if a group is the user's own: it has the user's name and no other member. An unlisted group must have the user's
/// number, since directory services and containers list nothing here.
pub fn is_own_group(host: &Host, gid: u32) -> bool {
    let [groups, users] = LISTS.map(|list| host.read_text(Path::new(list)).unwrap_or_default());
    let groups: Vec<Vec<&str>> = groups.lines().map(fields).collect();
    let users: Vec<Vec<&str>> = users.lines().map(fields).collect();
    let number = |entry: &[&str], at: usize| entry.get(at).and_then(|text| text.parse::<u32>().ok());
    let is_user = |entry: &&Vec<&str>| number(entry, 2) == Some(host.uid);
    if users.iter().any(|user| number(user, 3) == Some(gid) && !is_user(&user)) {
        return false;
    }
    let mut same = groups.iter().filter(|group| number(group, 2) == Some(gid)).peekable();
    if same.peek().is_none() {
        return gid == host.uid;
    }
    let Some(name) = users.iter().find(is_user).map(|user| user[0]) else { return false };
    let members = |group: &Vec<&str>| {
        group.get(3).is_none_or(|list| list.split(',').all(|member| member.is_empty() || member == name))
    };
    same.all(|group| group[0] == name && members(group))
}

/// `alice:x:1000:1000:…`
fn fields(line: &str) -> Vec<&str> {
    line.split(':').map(str::trim).collect()
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "arranges the lists")]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_group_of_the_users_name_without_another_member_is_the_users_own() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("etc")).unwrap();
        let is_own = |uid: u32, gid: u32, users: &str, groups: &str| {
            fs::write(root.path().join("etc/passwd"), users).unwrap();
            fs::write(root.path().join("etc/group"), groups).unwrap();
            let host = Host::at(root.path(), [("", ""); 0].into_iter().collect(), "/".into()).unwrap();
            is_own_group(&Host { uid, ..host }, gid)
        };
        let users =
            "root:x:0:0::/root:/bin/sh\nalice:x:1000:1000::/home/alice:/bin/sh\nbob:x:1001:100::/:/bin/sh\n";
        assert!(is_own(1000, 1000, users, "alice:x:1000:\n"));
        assert!(is_own(1000, 1000, users, "alice:x:1000:alice\n"));
        assert!(is_own(1000, 1000, "", ""), "neither is listed");
        for (gid, groups) in [
            (1000, "alice:x:1000:bob\n"),
            (1000, "lab:x:1000:\n"),
            (1000, "alice:x:1000:\nlab:x:1000:bob\n"),
            (100, "users:x:100:\n"),
            (100, "alice:x:100:\n"),
            (50, "staff:x:50:\n"),
            (50, ""),
        ] {
            assert!(!is_own(1000, gid, users, groups), "{gid} in {groups}");
        }
        assert!(!is_own(1000, 1000, "eve:x:1001:1000::/:/bin/sh\n", ""), "another user's first group");
    }
}
