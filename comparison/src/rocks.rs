//! Owns the few calls of RocksDB's C interface that the comparison needs. It must not measure.

use std::ffi::{CStr, CString, c_char, c_double, c_int, c_uchar, c_void};
use std::path::Path;
use std::ptr;

use anyhow::{Result, bail};

type Handle = *mut c_void;

unsafe extern "C" {
    fn rocksdb_options_create() -> Handle;
    fn rocksdb_options_destroy(options: Handle);
    fn rocksdb_options_set_create_if_missing(options: Handle, on: c_uchar);
    fn rocksdb_options_set_compression(options: Handle, kind: c_int);
    fn rocksdb_options_set_max_background_jobs(options: Handle, jobs: c_int);
    fn rocksdb_options_set_write_buffer_size(options: Handle, bytes: usize);
    fn rocksdb_options_set_enable_blob_files(options: Handle, on: c_uchar);
    fn rocksdb_options_set_min_blob_size(options: Handle, bytes: u64);
    fn rocksdb_options_set_blob_file_size(options: Handle, bytes: u64);
    fn rocksdb_options_set_enable_blob_gc(options: Handle, on: c_uchar);
    fn rocksdb_options_set_blob_gc_age_cutoff(options: Handle, share: c_double);
    fn rocksdb_options_set_blob_gc_force_threshold(options: Handle, share: c_double);
    fn rocksdb_options_set_blob_compaction_readahead_size(options: Handle, bytes: u64);
    fn rocksdb_open(options: Handle, path: *const c_char, error: *mut *mut c_char) -> Handle;
    fn rocksdb_close(db: Handle);
    fn rocksdb_writeoptions_create() -> Handle;
    fn rocksdb_writeoptions_destroy(options: Handle);
    fn rocksdb_writeoptions_set_sync(options: Handle, on: c_uchar);
    fn rocksdb_writeoptions_disable_WAL(options: Handle, on: c_int);
    fn rocksdb_writebatch_create() -> Handle;
    fn rocksdb_writebatch_destroy(batch: Handle);
    fn rocksdb_writebatch_put(batch: Handle, key: *const c_char, key_len: usize, value: *const c_char, len: usize);
    fn rocksdb_writebatch_delete(batch: Handle, key: *const c_char, key_len: usize);
    fn rocksdb_write(db: Handle, options: Handle, batch: Handle, error: *mut *mut c_char);
    fn rocksdb_flushoptions_create() -> Handle;
    fn rocksdb_flushoptions_destroy(options: Handle);
    fn rocksdb_flush(db: Handle, options: Handle, error: *mut *mut c_char);
    fn rocksdb_compactoptions_create() -> Handle;
    fn rocksdb_compactoptions_destroy(options: Handle);
    fn rocksdb_compactoptions_set_bottommost_level_compaction(options: Handle, how: c_uchar);
    fn rocksdb_compact_range_opt(
        db: Handle,
        options: Handle,
        start: *const c_char,
        start_len: usize,
        limit: *const c_char,
        limit_len: usize,
    );
    fn rocksdb_readoptions_create() -> Handle;
    fn rocksdb_readoptions_destroy(options: Handle);
    fn rocksdb_get(
        db: Handle,
        options: Handle,
        key: *const c_char,
        key_len: usize,
        len: *mut usize,
        error: *mut *mut c_char,
    ) -> *mut c_char;
    fn rocksdb_free(pointer: *mut c_void);
}

/// `BottommostLevelCompaction::kForceOptimized`: what this compaction has just written is not written a second time.
const BOTTOMMOST_FORCE_OPTIMIZED: c_uchar = 3;

/// A database with its values in blob files, tuned for this comparison: no compression (the values have no pattern), blob
/// files as large as our buckets, and a GC that may take every blob file.
pub struct Rocks {
    db: Handle,
    options: Handle,
}

impl Rocks {
    pub fn open(path: &Path) -> Result<Self> {
        let path = CString::new(path.as_os_str().as_encoded_bytes())?;
        // SAFETY: the options live as long as the database; the path is a C string; the error is freed by `check`.
        unsafe {
            let options = rocksdb_options_create();
            rocksdb_options_set_create_if_missing(options, 1);
            rocksdb_options_set_compression(options, 0);
            rocksdb_options_set_max_background_jobs(options, 2);
            rocksdb_options_set_write_buffer_size(options, 256 << 20);
            rocksdb_options_set_enable_blob_files(options, 1);
            rocksdb_options_set_min_blob_size(options, 0);
            rocksdb_options_set_blob_file_size(options, 256 << 20);
            rocksdb_options_set_enable_blob_gc(options, 1);
            rocksdb_options_set_blob_gc_age_cutoff(options, 1.0);
            rocksdb_options_set_blob_gc_force_threshold(options, 0.05);
            rocksdb_options_set_blob_compaction_readahead_size(options, 2 << 20);
            let mut error = ptr::null_mut();
            let db = rocksdb_open(options, path.as_ptr(), &mut error);
            let rocks = Self { db, options };
            check(error)?;
            Ok(rocks)
        }
    }

    /// Writes without the write-ahead log: [`Self::flush`] makes it durable.
    pub fn put(&self, objects: &[(Vec<u8>, Vec<u8>)]) -> Result<()> {
        // SAFETY: keys and values outlive the call that copies them; handles are destroyed once.
        unsafe {
            let batch = rocksdb_writebatch_create();
            for (key, value) in objects {
                rocksdb_writebatch_put(batch, key.as_ptr().cast(), key.len(), value.as_ptr().cast(), value.len());
            }
            let options = rocksdb_writeoptions_create();
            rocksdb_writeoptions_disable_WAL(options, 1);
            let done = self.write(options, batch);
            rocksdb_writeoptions_destroy(options);
            rocksdb_writebatch_destroy(batch);
            done
        }
    }

    /// Deletes all of them durably, in one write.
    pub fn delete(&self, keys: &[Vec<u8>]) -> Result<()> {
        // SAFETY: as in `put`.
        unsafe {
            let batch = rocksdb_writebatch_create();
            for key in keys {
                rocksdb_writebatch_delete(batch, key.as_ptr().cast(), key.len());
            }
            let options = rocksdb_writeoptions_create();
            rocksdb_writeoptions_set_sync(options, 1);
            let done = self.write(options, batch);
            rocksdb_writeoptions_destroy(options);
            rocksdb_writebatch_destroy(batch);
            done
        }
    }

    unsafe fn write(&self, options: Handle, batch: Handle) -> Result<()> {
        let mut error = ptr::null_mut();
        // SAFETY: the caller's handles are alive.
        unsafe {
            rocksdb_write(self.db, options, batch, &mut error);
            check(error)
        }
    }

    pub fn flush(&self) -> Result<()> {
        // SAFETY: the handle is destroyed once.
        unsafe {
            let options = rocksdb_flushoptions_create();
            let mut error = ptr::null_mut();
            rocksdb_flush(self.db, options, &mut error);
            rocksdb_flushoptions_destroy(options);
            check(error)
        }
    }

    /// Compacts everything, down to the bottom: what is dead is gone from the disk afterwards.
    pub fn reclaim(&self) {
        // SAFETY: null bounds mean the whole key space.
        unsafe {
            let options = rocksdb_compactoptions_create();
            rocksdb_compactoptions_set_bottommost_level_compaction(options, BOTTOMMOST_FORCE_OPTIMIZED);
            rocksdb_compact_range_opt(self.db, options, ptr::null(), 0, ptr::null(), 0);
            rocksdb_compactoptions_destroy(options);
        }
    }

    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        // SAFETY: the value is copied out, then freed by the library's own call.
        unsafe {
            let options = rocksdb_readoptions_create();
            let (mut len, mut error) = (0, ptr::null_mut());
            let value = rocksdb_get(self.db, options, key.as_ptr().cast(), key.len(), &mut len, &mut error);
            rocksdb_readoptions_destroy(options);
            check(error)?;
            if value.is_null() {
                return Ok(None);
            }
            let copy = std::slice::from_raw_parts(value.cast::<u8>(), len).to_vec();
            rocksdb_free(value.cast());
            Ok(Some(copy))
        }
    }
}

impl Drop for Rocks {
    fn drop(&mut self) {
        // SAFETY: both were created in `open`; a database that did not open is null.
        unsafe {
            if !self.db.is_null() {
                rocksdb_close(self.db);
            }
            rocksdb_options_destroy(self.options);
        }
    }
}

unsafe fn check(error: *mut c_char) -> Result<()> {
    if error.is_null() {
        return Ok(());
    }
    // SAFETY: the library gives a C string that the caller frees.
    let text = unsafe {
        let text = CStr::from_ptr(error).to_string_lossy().into_owned();
        rocksdb_free(error.cast());
        text
    };
    bail!("RocksDB: {text}")
}
