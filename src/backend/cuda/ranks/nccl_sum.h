// Implements RankSum by NCCL, for ranks on different machines, for GPUs without peer access, and if --nccl is
// given. NCCL only gathers the terms; a kernel adds them in rank order. NCCL's own all-reduce adds in an
// order that depends on the number of rows.
#pragma once

#include <memory>
#include <vector>

#include "backend/cuda/chip/owned_bytes.h"
#include "backend/cuda/memory/workspace.h"
#include "backend/cuda/ranks/nccl.h"
#include "backend/cuda/ranks/rank_sum.h"
#include "model/shares/share.h"

namespace nibble::cuda {

// Returns the GPU memory of a rank's NcclSum, and a guess of the memory that NCCL takes.
size_t nccl_rank_bytes(int hidden, int num_ranks, int max_batch_tokens);

struct NcclGroup {
  std::shared_ptr<const Nccl> nccl;
  GroupId id;
  std::vector<Share> shares;  // share of each rank, in rank order
  // Set if each rank is a process. send_tokens() then does nothing: the next step's input contains the
  // tokens.
  std::shared_ptr<const RankLinks> links{};
};

class NcclSum final : public RankSum {
 public:
  // Uses the calling thread's GPU. Returns after all ranks of the group have called this constructor. `work`
  // must outlive this object.
  NcclSum(const NcclGroup& group, int rank, const Config& config, int max_batch_tokens,
          const Workspace& work);
  ~NcclSum() override { abort(); }

  bool leaves_norms() const override { return false; }
  float* logits() const override { return work_.logits; }
  void sum(const LaunchContext& gpu, const HalfOutput& of, const SumLaunch& launch, Turn turn) const override;
  void gather_logits(const LaunchContext& gpu, const OutputRange& outputs, Turn turn) const override;
  void send_tokens(const LaunchContext& gpu, const OutputRange& outputs, Turn turn) const override;
  void run_trial(const LaunchContext& gpu, std::span<const TrialSum> sums, Turn turn) const override;
  void check_alive() const override;
  // Aborts NCCL's work without waiting for other ranks. Any thread may call abort().
  void abort() override;

 private:
  void add_up(const LaunchContext& gpu, const HalfOutput& of, int first_row, int num_rows) const;
  void broadcast(void* data, size_t bytes, cudaStream_t stream) const;

  const Workspace& work_;
  NcclGroup group_;
  int rank_, hidden_, vocab_;
  NcclComm* comm_{nullptr};
  DeviceBuffer gathered_;  // [ranks, rows, hidden]: terms of all ranks
};

}  // namespace nibble::cuda
