// A rank among ranks that NCCL connects, because they cannot write into each other's memory: they are on other machines, or GPUs without peer
// access. NCCL moves what each has to all of them, and a kernel adds it up in the order of ranks: NCCL's own sums have an order that depends on
// the number of rows.
#pragma once

#include <memory>
#include <vector>

#include "backend/cuda/chip/owned_bytes.h"
#include "backend/cuda/ranks/add_parts.h"
#include "backend/cuda/ranks/nccl.h"
#include "model/shares/share.h"

namespace nibble::cuda {

// Bytes that such a rank takes: those of the terms that it receives, and what NCCL takes for itself.
size_t nccl_rank_bytes(int hidden, int num_ranks, int max_batch_tokens);

class NcclRank {
 public:
  // On the device that is current. Returns when all ranks of the group have done the same; `shares` are all of theirs.
  NcclRank(std::shared_ptr<const Nccl> nccl, const GroupId& group, const std::vector<Share>& shares, int rank,
           int hidden, int max_batch_tokens);
  NcclRank(const NcclRank&) = delete;
  NcclRank& operator=(const NcclRank&) = delete;
  ~NcclRank() { abort(); }

  // These are put into the stream, and all ranks call them in the same order and for the same rows.
  //
  // out = x + the sum over ranks of the sum of their parts, of up to kSumRows rows.
  void sum(const LaunchContext& gpu, Operation operation, const AddArgs& terms) const;
  // Gives the first rank the others' columns of logits [rows, vocab].
  void gather_logits(float* logits, int rows, int vocab, cudaStream_t stream) const;
  // Gives the others what the first rank has there.
  void broadcast(void* data, size_t bytes, cudaStream_t stream) const;

  // Throws InputError if NCCL has met an error since.
  void check() const;
  // Ends what is under way, whatever the other ranks do. From any thread; the last call.
  void abort();

 private:
  std::shared_ptr<const Nccl> nccl_;
  std::vector<Share> shares_;
  int rank_;
  NcclComm* comm_{nullptr};
  DeviceBuffer gathered_;  // [ranks, rows, hidden]
};

}  // namespace nibble::cuda
