// A rank connected by NCCL, because the ranks cannot write to each other's memory: they are on different
// machines, or on GPUs without peer access. NCCL gathers the terms of all ranks, and a kernel adds them in
// the order of ranks: the order of NCCL's own all-reduce depends on the number of rows.
#pragma once

#include <memory>
#include <vector>

#include "backend/cuda/chip/owned_bytes.h"
#include "backend/cuda/ranks/add_parts.h"
#include "backend/cuda/ranks/nccl.h"
#include "model/shares/share.h"

namespace nibble::cuda {

// Returns the bytes that such a rank takes: the terms that it receives, and the memory of NCCL itself.
size_t nccl_rank_bytes(int hidden, int num_ranks, int max_batch_tokens);

// Ranks that NCCL connects.
struct NcclGroup {
  std::shared_ptr<const Nccl> nccl;
  GroupId id;
  std::vector<Share> shares;  // of all ranks, in order
  // Set if each rank is a process. Ranks in other processes get the tokens with the next step.
  std::shared_ptr<const RankLinks> links{};
};

class NcclRank {
 public:
  // Uses the current device. Returns once all ranks of the group have been constructed.
  NcclRank(const NcclGroup& group, int rank, int hidden, int max_batch_tokens);
  NcclRank(const NcclRank&) = delete;
  NcclRank& operator=(const NcclRank&) = delete;
  ~NcclRank() { abort(); }

  // sum(), gather_logits() and broadcast() enqueue into the stream. All ranks must call them in the same
  // order and for the same rows.
  //
  // out = x + the sum over ranks of the sum of their parts, for up to kSumRows rows.
  void sum(const LaunchContext& gpu, Operation operation, const AddArgs& terms) const;
  // Copies the other ranks' columns of logits [rows, vocab] to the first rank.
  void gather_logits(float* logits, int rows, int vocab, cudaStream_t stream) const;
  // Copies the first rank's data to the others.
  void broadcast(void* data, size_t bytes, cudaStream_t stream) const;

  // Throws InputError if NCCL has reported an error.
  void check() const;
  // Aborts NCCL's work in flight, without waiting for the other ranks. May be called from any thread; must be
  // the last call.
  void abort();

 private:
  std::shared_ptr<const Nccl> nccl_;
  std::vector<Share> shares_;
  int rank_;
  NcclComm* comm_{nullptr};
  DeviceBuffer gathered_;  // [ranks, rows, hidden]
};

}  // namespace nibble::cuda
