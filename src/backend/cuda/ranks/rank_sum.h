// How a rank exchanges numbers with the other ranks during a step: the sums after each half of a layer, the
// logits and the tokens. A step calls this interface and does not know how the numbers travel:
//
//   PeerSum (peer_sum.h)   kernels write to the memory of the other ranks
//   NcclSum (nccl_sum.h)   NCCL moves the terms, and a kernel adds them
//
// connection.h chooses one of them. Both add float32 terms in the order of ranks, so all ranks get the same
// bits.
//
// Ranks that compute on CPUs exchange by TCP and have an interface of their own, RankLinks
// (backend/rank_links.h), because neither interface fits the other without loss. TCP replaces one array in
// host memory, and its caller waits. A sum of GPUs is a launch, which a graph may contain; it adds several
// parts and x, sends rows to their owners only, and leaves the next norm. A first version that sent all terms
// to all ranks, as TCP does, and left norms to other kernels took 12.3 us instead of 7 for 64 rows, and 45.2
// ms instead of 38.7 for a prompt of 2,048 tokens (docs/decisions/0017).
#pragma once

#include <algorithm>
#include <span>

#include "backend/cuda/chip/target.h"
#include "backend/cuda/ranks/args.h"
#include "backend/cuda/ranks/protocol.h"

namespace nibble::cuda {

// A launch of the sum after half a layer. A launch sums up to kSumRows rows; all ranks launch the same ones.
struct SumLaunch {
  int half;
  int number;  // from 0 on
  int num_tokens;

  static int count(int num_tokens) { return (num_tokens + kSumRows - 1) / kSumRows; }
  int first_row() const { return number * kSumRows; }
  int num_rows() const { return std::min(kSumRows, num_tokens - first_row()); }
};

// Outputs of a step: up to kOutputRows.
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

  // Whether sum() also computes SumTerms::norm. Otherwise the terms must have none.
  virtual bool leaves_norms() const = 0;
  // Where this rank stores its columns of the logits before gather_logits().
  virtual float* logits() const = 0;

  // These enqueue work of a step. All ranks must call them in the same order and for the same rows.
  //
  // Adds up the terms of all ranks. All ranks get the sum; if it is normed, of many rows all get only the
  // norm (sum.h).
  virtual void sum(const LaunchContext& gpu, const HalfOutput& of, const SumLaunch& launch,
                   Turn turn) const = 0;
  // Makes the logits of these outputs complete on the first rank.
  virtual void gather_logits(const LaunchContext& gpu, const OutputRange& outputs, Turn turn) const = 0;
  // Gives all ranks of this process the tokens that the first rank has chosen.
  virtual void send_tokens(const LaunchContext& gpu, const OutputRange& outputs, Turn turn) const = 0;
  // Before the first step: runs these sums, and every other exchange once.
  virtual void run_trial(const LaunchContext& gpu, std::span<const TrialSum> sums, Turn turn) const = 0;

  // Throws if another rank is lost. To be called repeatedly while waiting for the device.
  virtual void check_alive() const {}
  // Returns whether a rank has timed out since the last call. Its sums are incomplete then.
  virtual bool take_timeout() { return false; }
  // Ends exchanges that wait for a lost rank. Must be the last call.
  virtual void abort() {}
};

}  // namespace nibble::cuda
