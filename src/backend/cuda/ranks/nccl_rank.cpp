#include "backend/cuda/ranks/nccl_rank.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "backend/cuda/ranks/protocol.h"

namespace nibble::cuda {
namespace {

// Guess of the GPU memory that NCCL takes. NCCL documents 4 MB for each direction of up to 32 channels, 256
// MB in all. The other half is a reserve for memory that NCCL does not document.
constexpr size_t kBytesOfNccl{size_t{512} << 20};

size_t gathered_bytes(int hidden, int num_ranks, int max_batch_tokens) {
  return static_cast<size_t>(num_ranks) * static_cast<size_t>(std::min(max_batch_tokens, kSumRows)) *
         static_cast<size_t>(hidden) * sizeof(float);
}

}  // namespace

size_t nccl_rank_bytes(int hidden, int num_ranks, int max_batch_tokens) {
  return gathered_bytes(hidden, num_ranks, max_batch_tokens) + kBytesOfNccl;
}

NcclRank::NcclRank(const NcclGroup& group, int rank, int hidden, int max_batch_tokens)
    : nccl_(group.nccl),
      shares_(group.shares),
      rank_(rank),
      gathered_(gathered_bytes(hidden, static_cast<int>(shares_.size()), max_batch_tokens)) {
  NcclId id;
  std::memcpy(id.bytes, group.id.data(), sizeof id.bytes);
  nccl_->check(nccl_->comm_init_rank(&comm_, static_cast<int>(shares_.size()), id, rank),
               "connecting to the other ranks");
}

void NcclRank::sum(const LaunchContext& gpu, Operation operation, const AddArgs& terms) const {
  const size_t count = static_cast<size_t>(terms.num_rows) * static_cast<size_t>(terms.hidden);
  auto* const gathered = gathered_.as<float>();
  const float* own = terms.parts;
  if (terms.num_parts > 1 || terms.weights || terms.part_rows ||
      terms.row_stride != static_cast<size_t>(terms.hidden)) {
    AddArgs parts = terms;
    parts.x = nullptr;
    own = parts.out = gathered + static_cast<size_t>(rank_) * count;
    add_parts(gpu, {operation, "own terms"}, parts);
  }
  nccl_->check(nccl_->all_gather(own, gathered, count, NcclType::kFloat32, comm_, gpu.stream),
               "sending terms", comm_);
  // The sum does not use programmatic dependent launch: NCCL's kernels never let a successor start early, and
  // the nodes that NCCL adds to a graph may not be kernels.
  LaunchContext in_order = gpu;
  in_order.target.has_dependent_launch = false;
  add_parts(in_order, {operation, "sum"},
            {gathered, static_cast<int>(shares_.size()), count, static_cast<size_t>(terms.hidden), terms.x,
             terms.out, terms.num_rows, terms.hidden});
}

void NcclRank::gather_logits(float* logits, int rows, int vocab, cudaStream_t stream) const {
  nccl_->check(nccl_->group_start(), "sending logits");
  for (int row = 0; row < rows; ++row)
    for (size_t r = 1; r < shares_.size(); ++r) {
      const IndexRange& columns = shares_[r].vocab;
      float* const first = logits + static_cast<size_t>(row) * static_cast<size_t>(vocab) + columns.first;
      const auto count = static_cast<size_t>(columns.count);
      if (rank_ == 0)
        nccl_->check(nccl_->receive(first, count, NcclType::kFloat32, static_cast<int>(r), comm_, stream),
                     "sending logits", comm_);
      else if (rank_ == static_cast<int>(r))
        nccl_->check(nccl_->send(first, count, NcclType::kFloat32, 0, comm_, stream), "sending logits",
                     comm_);
    }
  nccl_->check(nccl_->group_end(), "sending logits", comm_);
}

void NcclRank::broadcast(void* data, size_t bytes, cudaStream_t stream) const {
  nccl_->check(nccl_->broadcast(data, data, bytes, NcclType::kUint8, 0, comm_, stream), "sending tokens",
               comm_);
}

void NcclRank::check() const {
  int error = 0;
  nccl_->check(nccl_->comm_get_async_error(comm_, &error), "checking for errors", comm_);
  nccl_->check(error, "communicating with the other ranks", comm_);
}

void NcclRank::abort() {
  if (NcclComm* const comm = std::exchange(comm_, nullptr)) nccl_->comm_abort(comm);
}

}  // namespace nibble::cuda
