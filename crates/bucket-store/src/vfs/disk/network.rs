//! Owns the list of file systems that are refused, by the numbers that `statfs` gives them.

/// What is known of a number: the name of a network file system, or `None` for anything else.
pub(super) fn name(magic: u64) -> Option<&'static str> {
    // The field is a signed word on some machines.
    match magic as u32 {
        0x6969 => Some("NFS"),
        0xff53_4d42 => Some("CIFS"),
        0x517b => Some("SMB"),
        0xfe53_4d42 => Some("SMB2"),
        0x6573_5546 => Some("FUSE, behind which there may be anything"),
        0x0102_1997 => Some("9P"),
        0x00c3_6400 => Some("Ceph"),
        0x5346_414f | 0x6b41_4653 => Some("AFS"),
        0x7375_7245 => Some("Coda"),
        0x564c => Some("NCP"),
        0x0bd0_0bd0 => Some("Lustre"),
        0x0116_1970 => Some("GFS2"),
        0x7461_636f => Some("OCFS2"),
        0x4750_4653 => Some("GPFS"),
        0x1983_0326 => Some("BeeGFS"),
        0xaad7_aaea => Some("PanFS"),
        0x2003_0528 => Some("OrangeFS"),
        0x786f_4256 => Some("VirtualBox shared folder"),
        0xbacb_acbc => Some("VMware shared folder"),
        0x7c7c_6673 => Some("Parallels shared folder"),
        0x6163_6673 => Some("ACFS"),
        0xbeef_dead => Some("StorNext"),
        0x0130_11a8 => Some("Ibrix"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::name;

    #[test]
    fn network_file_systems_are_known_and_local_ones_pass() {
        assert_eq!(name(0x6969), Some("NFS"));
        assert_eq!(name(0xffff_ffff_ff53_4d42), Some("CIFS"), "as a signed word");
        for local in [0xef53, 0x5846_5342, 0x9123_683e, 0x0102_1994, 0x794c_7630, 0xf2f5_2010, 0x2fc1_2fc1] {
            assert_eq!(name(local), None, "{local:x}");
        }
    }
}
