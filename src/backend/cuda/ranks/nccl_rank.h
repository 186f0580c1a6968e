// A rank that NCCL connects with the other ranks, for ranks on several machines or without peer access. NCCL
// only gathers the terms; a kernel adds them in rank order. NCCL's own all-reduce adds in an order that
// depends on the number of rows.
#pragma once

#include <memory>
#include <vector>

#include "backend/cuda/chip/owned_bytes.h"
#include "backend/cuda/ranks/add_parts.h"
#include "backend/cuda/ranks/nccl.h"
#include "model/shares/share.h"

namespace nibble::cuda {

size_t nccl_rank_bytes(int hidden, int num_ranks, int max_batch_tokens);

struct NcclGroup {
  std::shared_ptr<const Nccl> nccl;
  GroupId id;
  std::vector<Share> shares;  // share of each rank, in rank order
  // Set if each rank is a process. NcclSum::send_tokens() then does nothing: the next step's input contains
  // the tokens.
  std::shared_ptr<const RankLinks> links{};
};

class NcclRank {
 public:
  // Uses the current device. Returns once all ranks of the group are constructed.
  NcclRank(const NcclGroup& group, int rank, int hidden, int max_batch_tokens);
  NcclRank(const NcclRank&) = delete;
  NcclRank& operator=(const NcclRank&) = delete;
  ~NcclRank() { abort(); }

  // sum(), gather_logits() and broadcast() enqueue work in the stream. All ranks must make the same calls in
  // the same order. sum() computes out = x + all ranks' parts, for up to kSumRows rows.
  void sum(const LaunchContext& gpu, Operation operation, const AddArgs& terms) const;
  // Copies the other ranks' columns of logits [rows, vocab] to the first rank.
  void gather_logits(float* logits, int rows, int vocab, cudaStream_t stream) const;
  void broadcast(void* data, size_t bytes, cudaStream_t stream) const;

  void check() const;  // throws InputError if NCCL has reported an error
  // Aborts NCCL's work without waiting for other ranks. Any thread may call abort(). It must be the last call
  // of this object.
  void abort();

 private:
  std::shared_ptr<const Nccl> nccl_;
  std::vector<Share> shares_;
  int rank_;
  NcclComm* comm_{nullptr};
  DeviceBuffer gathered_;  // [ranks, rows, hidden]: terms of all ranks
};

}  // namespace nibble::cuda
