// The exchange between GPU ranks during a step: sums after each half of a layer, logits, and tokens. Steps
// use only this interface; connection.h chooses its implementation:
//
//   PeerSum (peer_sum.h)   kernels write to the memory of the other ranks
//   NcclSum (nccl_sum.h)   NCCL moves the terms, and a kernel adds them
//
// Both add float32 terms in rank order, so all ranks get the same bits.
//
// CPU ranks exchange by TCP through another interface, RankLinks (backend/rank_links.h). It sums one array in
// host memory, sends all terms to all ranks, and blocks the caller. A sum of GPU ranks is a launch, which a
// graph can contain. It adds several parts and x, sends each row only to its owner, and computes the next
// norm. A version that sent all terms to all ranks and left norms to other kernels took 12.3 us instead of 7
// for 64 rows, and 45.2 ms instead of 38.7 for a prompt of 2,048 tokens (docs/decisions/0017).
#pragma once

#include <algorithm>
#include <span>

#include "backend/cuda/chip/target.h"
#include "backend/cuda/ranks/args.h"
#include "backend/cuda/ranks/protocol.h"

namespace nibble::cuda {

// One launch of a sum after half a layer; it adds up to kSumRows rows. All ranks launch the same sums.
struct SumLaunch {
  int half;
  int number;  // index among the launches of the half layer
  int num_tokens;

  static int count(int num_tokens) { return (num_tokens + kSumRows - 1) / kSumRows; }
  int first_row() const { return number * kSumRows; }
  int num_rows() const { return std::min(kSumRows, num_tokens - first_row()); }
};

// Outputs first to first + count - 1 of a step. `count` is at most kOutputRows.
struct OutputRange {
  int first, count;
};

// A sum of known terms, which tests the links before the first step.
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

  // Whether sum() can compute the norm SumTerms::norm. If false, the terms must not request a norm.
  virtual bool leaves_norms() const = 0;
  // Returns the buffer in which this rank stores its columns of the logits before gather_logits().
  virtual float* logits() const = 0;

  // The next four functions enqueue work. All ranks must call them in the same order and for the same rows.

  // Adds the terms of all ranks. Every rank gets all sums. The exception is a sum with a norm and more than
  // tagged_rows() rows: every rank gets all norms, but only the sums of rows that it owns (sum.h).
  virtual void sum(const LaunchContext& gpu, const HalfOutput& of, const SumLaunch& launch,
                   Turn turn) const = 0;
  // Gathers all ranks' columns of these outputs' logits on the first rank.
  virtual void gather_logits(const LaunchContext& gpu, const OutputRange& outputs, Turn turn) const = 0;
  // Sends the first rank's chosen tokens to the process's other ranks, which may then overwrite logits().
  virtual void send_tokens(const LaunchContext& gpu, const OutputRange& outputs, Turn turn) const = 0;
  // Runs the given sums, and each other kind of exchange once, before the first step.
  virtual void run_trial(const LaunchContext& gpu, std::span<const TrialSum> sums, Turn turn) const = 0;

  // Throws if another rank is lost. Call it repeatedly while waiting for the device.
  virtual void check_alive() const {}
  // Returns whether any rank has timed out since the last call. After a timeout, sums are incomplete.
  virtual bool take_timeout() { return false; }
  // Aborts exchanges that wait for a lost rank. It must be the last call.
  virtual void abort() {}
};

}  // namespace nibble::cuda
