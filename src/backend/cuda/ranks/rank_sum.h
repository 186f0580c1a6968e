// The exchange between GPU ranks in a step: sums after each half of a layer, logits, and tokens. Steps use
// only this interface; connection.h chooses its implementation:
//
//   PeerSum (peer_sum.h)   kernels write to the memory of the other ranks
//   NcclSum (nccl_sum.h)   NCCL moves the terms, and a kernel adds them
//
// Both implementations add float32 terms in rank order, so all ranks get the same bits.
//
// CPU ranks use another interface, RankLinks (backend/rank_links.h), which sums an array in host memory over
// TCP, sends all terms to all ranks, and blocks the caller. A sum of GPU ranks is a launch, so a CUDA graph
// can contain it. This launch adds several parts and x, sends each row only to its owner, and computes the
// next norm. An earlier version sent all terms to all ranks and left norms to other kernels: 64 rows took
// 12.3 us instead of 7, and a prompt of 2,048 tokens 45.2 ms instead of 38.7 (docs/decisions/0017).
#pragma once

#include <algorithm>
#include <span>

#include "backend/cuda/chip/target.h"
#include "backend/cuda/ranks/args.h"
#include "backend/cuda/ranks/protocol.h"

namespace nibble::cuda {

// One launch of the sum after half a layer, for at most kSumRows rows. All ranks launch the same sums.
struct SumLaunch {
  int half;
  int number;  // index among the launches of this half layer
  int num_tokens;

  static int count(int num_tokens) { return (num_tokens + kSumRows - 1) / kSumRows; }
  int first_row() const { return number * kSumRows; }
  int num_rows() const { return std::min(kSumRows, num_tokens - first_row()); }
};

// The outputs `first` to `first` + `count` - 1 of a step. `count` is at most kOutputRows.
struct OutputRange {
  int first, count;
};

// A sum of known terms, to test the links before the first step.
struct TrialSum {
  SumTerms terms;
  int num_rows;
};

class RankSum {
 public:
  RankSum() = default;
  RankSum(const RankSum&) = delete;
  RankSum& operator=(const RankSum&) = delete;
  virtual ~RankSum() = default;

  // Returns whether sum() can compute a norm. If not, SumTerms::norm must have no weights.
  virtual bool leaves_norms() const = 0;
  // Returns the buffer to which this rank writes its columns of the logits before gather_logits().
  virtual float* logits() const = 0;

  // The next four functions enqueue work. All ranks must call them in the same order and for the same rows.

  // Adds the terms of all ranks. Every rank gets the sums of all rows, with one exception: with a norm and
  // more than tagged_rows() rows, every rank gets all norms, but only the sums of rows that it owns (sum.h).
  virtual void sum(const LaunchContext& gpu, const HalfOutput& of, const SumLaunch& launch,
                   Turn turn) const = 0;
  // Gathers the logits of `outputs` on the first rank: each rank has the columns of its share of lm_head.
  virtual void gather_logits(const LaunchContext& gpu, const OutputRange& outputs, Turn turn) const = 0;
  // Sends chosen tokens from the first rank to the other ranks of this process. After that, those ranks may
  // overwrite logits().
  virtual void send_tokens(const LaunchContext& gpu, const OutputRange& outputs, Turn turn) const = 0;
  // Tests the links: runs the given sums, and every other kind of exchange once. Call it before the first
  // step and before graph capture.
  virtual void run_trial(const LaunchContext& gpu, std::span<const TrialSum> sums, Turn turn) const = 0;

  // Throws if another rank is lost. Call it repeatedly while waiting for the GPU.
  virtual void check_alive() const {}
  // Returns whether any rank has timed out since the last call. If so, sums are incomplete.
  virtual bool take_timeout() { return false; }
  // Aborts exchanges that wait for a lost rank. abort() must be the last call of this object.
  virtual void abort() {}
};

}  // namespace nibble::cuda
