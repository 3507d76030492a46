//! Handles of the libraries whose numbers are not tested. To make one starts the library on the GPU. Source of the
//! signatures: cufft.h of 10.9, 11.4 and 12.5, curand.h of 10.3 and 10.4, cusolverDn.h of 11.4, 11.7 and 12.4, cusparse.h
//! of 11.7, 12.5 and 12.9.

use std::ffi::c_int;
use std::ptr;

use crate::verify::child::call::{Api, CallFailure, Pointer, call};

/// `CURAND_RNG_PSEUDO_DEFAULT`
const DEFAULT_GENERATOR: c_int = 100;

/// Makes a handle and destroys it.
type Make = fn(&Api<'_>) -> Result<(), CallFailure>;

/// By family.
pub(in crate::verify::child) const HANDLES: &[(&str, Make)] = &[
    ("cufft", |api| {
        let mut plan = 0;
        // SAFETY: the types that cufft.h declares; writes one number.
        unsafe {
            call!(api, "cufftCreate", *mut c_int: &raw mut plan)?;
            call!(api, "cufftDestroy", c_int: plan)
        }
    }),
    ("curand", |api| {
        let mut generator = ptr::null_mut();
        // SAFETY: the types that curand.h declares; writes one pointer.
        unsafe {
            call!(api, "curandCreateGenerator", *mut Pointer: &raw mut generator, c_int: DEFAULT_GENERATOR)?;
            call!(api, "curandDestroyGenerator", Pointer: generator)
        }
    }),
    ("cusolver", |api| {
        let handle = api.make("cusolverDnCreate")?;
        api.destroy("cusolverDnDestroy", handle)
    }),
    ("cusparse", |api| {
        let handle = api.make("cusparseCreate")?;
        api.destroy("cusparseDestroy", handle)
    }),
];
