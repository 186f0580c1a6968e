// Kernel costs for predictions (predict.h): instruction counts from SASS, and times measured on Hopper. Plain
// data.
#pragma once

#include "backend/cuda/layout/strips.h"
#include "model/operation.h"

namespace nibble::cuda {

// Warp instructions per tile (64 columns) of a strip, on the path of a full segment of sm_90a, counting the
// branch of lane 0 that refills a ring as taken; other families differ by a few. `few`: kernels for up to 16
// tokens, per tile and pass (qkv_kernel: 477, 614 and 389 for a segment of 5). `many` and `many_columns`:
// prefill kernels, per tile, and per tile of 8 columns it is multiplied with (experts_up_many_kernel,
// qkv_many_kernel: loops for 2 to 8 of those; a fifth of a segment's end and the copying warps are included).
// `batch`: expert kernels on Hopper in steps of fewer than kManyTokens, per tile (340 for a segment of 5). To
// count them, with the packages nvidia-cuda-cuobjdump and nvidia-cuda-nvdisasm of PyPI on the PATH:
//
//   cd build/cuda/CMakeFiles/nibble_cuda_kernels.dir
//   cuobjdump -sass -arch sm_90a src/backend/cuda/dense/stream.cu.o
//   (the same for dense/mma.cu.o, experts/mma.cu.o and experts/wgmma.cu.o; the loops are those
//   with HMMA in them)
struct LoopCost {
  Layout layout;
  double few, many, many_columns, batch;
};
inline constexpr LoopCost kLoopCosts[]{
    {Layout::kBf16, 95, 63, 8.0, 0},
    {Layout::kE4m3, 123, 108, 9.0, 0},
    {Layout::kMxfp4, 78, 107, 8.2, 68},
};
// About 400 for the 34 products of a page and two rows in attend_tiles_kernel, and about 200 in
// attend_wgmma_kernel.
inline constexpr double kAttendInstructionsPerProduct{12}, kAttendInstructionsByWgmma{6};
inline constexpr double kAttendProductShare{34.0 / 32};  // two of the 34 add up the denominators

// Shares of the hardware's rates that loops reach. kIssueUse: share of 4 instructions per clock and SM. With
// weights and activations in shared memory the MXFP4 loop reached 0.7 to 0.76 (38.4 weights per clock on an
// H200); 0.78 fits whole steps on an H200 that launches for 132, 96, 64 and 48 of its SMs.
inline constexpr double kIssueUse{0.78};
// Experts with 2 to 8 rows reach less on an H200 (times in docs/decisions/0015; in the busiest SM, the pipe
// of masks and shifts was busy for 0.82 of the time). Those of a batch, whose warps wait for each other's
// stages, reach less again: fitted to the steps of records/cuda-profile.jsonl, commit dd36432. Since then
// steps of 2 to 64 rows have become 4 to 8 % shorter than predicted from these (docs/scaling.md).
// kNextExpert, from the same fit: the microseconds that a CTA takes to go on from one expert to the next. Its
// strips begin in one expert and end in another in all steps except those of one token.
inline constexpr double kFewIssueUse{0.57}, kBatchIssueUse{0.47}, kNextExpert{1.8};
// Products: an H200 multiplied MXFP4 strips with 64 columns, without loads, at 0.59 of its rate (0.64 per
// clock and SM). In whole prompts the loop waits for its own latencies: 2,048 tokens of 120b in 99 KB took
// the time of 0.228 products per clock (records/cuda-bench.jsonl, commit 2494259). A chip with a lower rate
// is bound by that rate; the share of it is a guess until one is measured.
inline constexpr double kProductUse{0.59}, kMostProducts{0.228};
// Shares of the product rate by wgmma: fitted to 2,048 tokens of 120b on an H200 and an H100
// (records/cuda-bench.jsonl, commit 2494259), within 2 %, and to attention at depth 16,384
// (docs/decisions/0014). The fit includes the time that attention tiles spend outside their pages, and that
// of norms beyond their bytes: the products alone are faster.
inline constexpr double kProductUseByWgmma{0.64}, kAttendProductUseByWgmma{0.484};
// Dense products by wgmma for up to kNarrowTokens: microseconds per CTA for a tile of its 64 rows, plus those
// for each 8 columns of the tile. Few CTAs have work (45 in project), and each waits for its own latencies.
// Fitted to qkv and project of 16 and 64 rows (docs/decisions/0016), within 12 %.
inline constexpr int kNarrowRows{64};
inline constexpr double kNarrowTile{0.21}, kNarrowColumns{0.017};
// Up to kSplitTokens a work item is one segment. kSplitCtas: CTAs per SM. kJoin: microseconds of the kernel
// that adds the segments, besides the time for its bytes (docs/decisions/0016).
inline constexpr int kSplitCtas{2};
inline constexpr double kJoin{1.0};
// Share of the read bandwidth that streaming weights reach: lm_head in BF16 read at 98 % on an H100
// (docs/performance.md).
inline constexpr double kReadUse{0.98};
// Seconds from the request for a ring slot until the slot can be requested again. An H100 at the knee of its
// bandwidth answers after 1.0 to 1.4 us. This matters on chips with few SMs relative to their bandwidth.
inline constexpr double kSlotSeconds{1.0e-6};

// Clocks that a page of one key/value head and one row occupies an SM in attend_rows. A compromise between
// two measurements: a full layer takes 19 us longer at 16,384 positions than at none, and 203 us longer at
// 131,000 (one H200, records/cuda-profile.jsonl, commit dd36432). Long rows have become faster since: one
// H100 takes 950 clocks at 88d289a, and a step at 16,384 on an H200 is 11 % shorter at befcd41 than
// predicted. To be updated once 131,000 positions have been measured again.
inline constexpr double kAttendClocksPerPage{1600};

// Microseconds of a launch in which nothing streams, at the clock of a Hopper; other chips take kSerialHz /
// clock times as long. `serial`: the boundary between two kernels, the latency of activations, the spread of
// a launch over its CTAs, the sums. `prologue`: activations are loaded and normed; meanwhile memory fetches
// the weights that were requested before, and the products wait.
//
// Fitted to decoding of 120b and 20b in all three formats at depth 0 and 16,384 on H100 and H200
// (records/cuda-bench.jsonl, records/cuda-predict.jsonl) and to the parts of a step on an H100
// (records/cuda-profile.jsonl): qkv, attend and project together 8.3 us per layer; route, experts_up and
// experts_down 10.1; the ends of a step 6.8; the prologue 2.3. Within these they are divided by those parts
// and by the timestamps of docs/decisions/0005 (the last CTA of experts_up is 3.5 us later than the first).
// All predicted speeds are within 9 % of the measured ones, those of depth 0 within 7 %. rms_norm is from
// docs/decisions/0016, on an H200.
//
// Steps of few rows have become shorter since (end of docs/decisions/0016), and these times are not refitted
// yet: predicted speeds of one row with layers in BF16, FP8 and MXFP4 are 4, 5 and 7 % too low on an H200
// (befcd41), 9, 6 and 9 % on an H100, and 11 to 14 % at depth 16,384.
inline constexpr double kSerialHz{1.98e9};
struct SerialCost {
  Operation operation;
  double serial, prologue;
};
inline constexpr double kPrologue{2.3};
inline constexpr SerialCost kSerialCosts[]{
    {Operation::kEmbed, 1.5, 0},
    {Operation::kRmsNorm, 4.0, 0},
    {Operation::kQkv, 2.6, kPrologue},
    {Operation::kAppend, 1.5, 0},
    {Operation::kAttend, 3.1, 0},
    {Operation::kProject, 2.6, kPrologue},
    {Operation::kRoute, 3.7, 0},
    {Operation::kExpertsUp, 3.7, 0},
    {Operation::kExpertsDown, 2.7, kPrologue},
    {Operation::kUnembed, 2.1, kPrologue},
    {Operation::kSample, 3.2, 0},
};
// Added to each launch if kernels do not start while their predecessors end: chains of streaming kernels took
// 2.0 to 2.1 us per boundary as a graph, and 1.0 to 1.3 with dependent launches (one H100).
inline constexpr double kWithoutDependentLaunch{1.0};
// Steps of several rows, from the traces of docs/decisions/0016 on an H200. kNormOfRow: each row beyond the
// first, in kernels that compute their own norms. kRouteAlone: the router as a launch of its own, with the
// ranking; fitted to the steps of commit dd36432.
inline constexpr double kNormOfRow{1.4}, kRouteAlone{4.8};

}  // namespace nibble::cuda
