// Macros that tell the sanitizers about switches between fibers. In builds without sanitizers they do nothing.
#pragma once

#ifdef __has_feature  // clang
#define FOLDGRAD_HAS_FEATURE(x) __has_feature(x)
#else
#define FOLDGRAD_HAS_FEATURE(x) 0
#endif

#if defined(__SANITIZE_ADDRESS__) || FOLDGRAD_HAS_FEATURE(address_sanitizer)
#include <sanitizer/common_interface_defs.h>
#define FOLDGRAD_ASAN(...) __VA_ARGS__
#define FOLDGRAD_HAS_ASAN 1
#else
#define FOLDGRAD_ASAN(...)
#define FOLDGRAD_HAS_ASAN 0
#endif

// FOLDGRAD_UNSEEN hides a function from ThreadSanitizer, which would report races: fibers share the scheduler's data
// without locks.
#if defined(__SANITIZE_THREAD__) || FOLDGRAD_HAS_FEATURE(thread_sanitizer)
#include <sanitizer/tsan_interface.h>
#define FOLDGRAD_TSAN(...) __VA_ARGS__
#define FOLDGRAD_HAS_TSAN 1
#define FOLDGRAD_UNSEEN __attribute__((no_sanitize("thread"), noinline))
#else
#define FOLDGRAD_TSAN(...)
#define FOLDGRAD_HAS_TSAN 0
#define FOLDGRAD_UNSEEN
#endif

namespace foldgrad::emulation {

constexpr bool kAddressSanitizer = FOLDGRAD_HAS_ASAN != 0;
constexpr bool kThreadSanitizer = FOLDGRAD_HAS_TSAN != 0;

}  // namespace foldgrad::emulation
