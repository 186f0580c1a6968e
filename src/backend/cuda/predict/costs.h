// Fractions of a chip's rates that nibble's kernels reach, for predictions (predict.h). The constants were
// fitted together to records of one H100 and one H200 (records/cuda-bench.jsonl, records/cuda-profile.jsonl;
// commit 2494259) and to launches on 48 to 96 multiprocessors (records/cuda-predict.jsonl, commit 4fa7ba9).
// tools/predict_records prints the errors of the predictions. Fit the constants again only after a change
// that makes most steps faster.
#pragma once

namespace nibble::cuda {

// Fractions of the read bandwidth: kReadShare for weights, kCacheShare for the KV cache in decoding steps.
// kCacheShare is a compromise: one sequence reaches 0.44 at a depth of 16,384 tokens and 0.28 at 131,000
// (records/cuda-profile.jsonl, commit dd36432); 64 sequences at a depth of 1,024 reach almost 1.
inline constexpr double kReadShare{0.96}, kCacheShare{0.38};

// Weights that a multiprocessor converts per clock, in any format.
inline constexpr double kWeightsPerClock{26};

// Fractions of ChipSpeeds::products_per_clock. wgmma: kWgmmaShare for matrices, kWgmmaAttendShare for
// attention. mma.sync: kMmaShare (a guess), but at most kMostMmaProducts products per SM and clock, the rate
// of mma.sync kernels on Hopper. Block-scaled kernels use the same pipeline (pipeline.cuh) as mma.sync
// kernels. So the same fraction, of block_products_per_clock, and the same limit are assumed for them.
inline constexpr double kWgmmaShare{0.6}, kWgmmaAttendShare{0.43}, kMmaShare{0.59}, kMostMmaProducts{0.2};

// kLaunchSeconds: time of a launch besides its transfers and products: the gap between two launches, the
// latency of loading activations, and sums over the warps of a CTA. kLaunchApartSeconds is added on chips
// that cannot start a launch before the previous one has ended. It was measured on an H100: the time that a
// launch takes longer if it may not start early.
inline constexpr double kLaunchSeconds{2.6e-6}, kLaunchApartSeconds{1.0e-6};

// kFusedNormRows: largest number of rows of a step without separate launches for norms. kUnscaledRows:
// largest number of rows of a step without block-scaled products.
inline constexpr int kFusedNormRows{2}, kUnscaledRows{16};

}  // namespace nibble::cuda
