// Shares of a chip's rates that nibble's kernels reach, for predictions (predict.h), fitted together to
// records of commit 2494259 of one H100 and one H200 (records/cuda-bench.jsonl, records/cuda-profile.jsonl)
// and to launches for 48 to 96 multiprocessors (records/cuda-predict.jsonl, commit 4fa7ba9).
// tools/predict_records prints the errors. New kernels change them only if they change what most steps reach.
#pragma once

namespace nibble::cuda {

// Shares of the read bandwidth: kReadShare for weights, kCacheShare for a decode row's KV cache. The latter
// is a compromise: one sequence reaches 0.44 at a depth of 16,384, and reached 0.28 at 131,000
// (records/cuda-profile.jsonl, commit dd36432); 64 sequences at 1,024 reach nearly all.
inline constexpr double kReadShare{0.96}, kCacheShare{0.38};

// Weights that a multiprocessor converts per clock, in any format.
inline constexpr double kWeightsPerClock{26};

// Shares of the products per clock (ChipSpeeds), by wgmma for matrices and for attention, and by mma.sync:
// kMostMmaProducts on Hopper; kMmaShare, for chips with a lower rate, is a guess.
inline constexpr double kWgmmaShare{0.6}, kWgmmaAttendShare{0.43}, kMmaShare{0.59}, kMostMmaProducts{0.2};

// Seconds per launch in which none of these rates is reached: launch boundaries, latency of activations, sums
// over a CTA. kLaunchApartSeconds is added on chips whose launches cannot start while their predecessors end
// (measured on an H100 with both kinds of launches).
inline constexpr double kLaunchSeconds{2.6e-6}, kLaunchApartSeconds{1.0e-6};

// Most rows for which other launches compute the norms.
inline constexpr int kFusedNormRows{2};

}  // namespace nibble::cuda
