#include "backend/cuda/ranks/nccl_sum.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "backend/cuda/ranks/add_parts.h"
#include "core/errors/check.h"

namespace nibble::cuda {
namespace {

// Guess of the GPU memory that NCCL takes. NCCL documents 4 MB for each direction of up to 32 channels, 256
// MB in all. The other half is a reserve for memory that NCCL does not document.
constexpr size_t kBytesOfNccl{size_t{512} << 20};

size_t gathered_bytes(int hidden, int num_ranks, int max_batch_tokens) {
  return size_t{1} * num_ranks * std::min(max_batch_tokens, kSumRows) * hidden * sizeof(float);
}

}  // namespace

size_t nccl_rank_bytes(int hidden, int num_ranks, int max_batch_tokens) {
  return gathered_bytes(hidden, num_ranks, max_batch_tokens) + kBytesOfNccl;
}

NcclSum::NcclSum(const NcclGroup& group, int rank, const Config& config, int max_batch_tokens,
                 const Workspace& work)
    : work_(work),
      group_(group),
      rank_(rank),
      hidden_(config.hidden),
      vocab_(config.vocab),
      gathered_(gathered_bytes(hidden_, static_cast<int>(group.shares.size()), max_batch_tokens)) {
  NcclId id;
  std::memcpy(id.bytes, group.id.data(), sizeof id.bytes);
  group_.nccl->check(group_.nccl->comm_init_rank(&comm_, static_cast<int>(group_.shares.size()), id, rank),
                     "connecting to the other ranks");
}

void NcclSum::add_up(const LaunchContext& gpu, const HalfOutput& of, int first_row, int num_rows) const {
  const SumTerms& terms = of.terms;
  NIBBLE_CHECK(!terms.norm.weights, "a norm after a sum by NCCL");
  const size_t first = first_row, at = first * hidden_, count = size_t{1} * num_rows * hidden_;
  // part_rows holds indices among the whole step's parts, so if it is set, `parts` begins at row 0.
  AddArgs own{terms.parts + (terms.part_rows ? 0 : first * terms.row_stride),
              terms.num_parts,
              terms.part_stride,
              terms.row_stride,
              nullptr,
              nullptr,
              num_rows,
              hidden_,
              terms.weights ? terms.weights + first * terms.num_parts : nullptr,
              terms.part_rows ? terms.part_rows + first : nullptr};
  auto* const gathered = gathered_.as<float>();
  const float* sent = own.parts;
  if (own.num_parts > 1 || own.weights || own.part_rows || own.row_stride != static_cast<size_t>(hidden_)) {
    sent = own.out = gathered + rank_ * count;
    add_parts(gpu, {of.operation, "own terms"}, own);
  }
  group_.nccl->check(group_.nccl->all_gather(sent, gathered, count, NcclType::kFloat32, comm_, gpu.stream),
                     "sending terms", comm_);
  // The sum does not use programmatic dependent launch: NCCL's kernels never let a successor start early, and
  // the nodes that NCCL adds to a graph may not be kernels.
  LaunchContext in_order = gpu;
  in_order.target.has_dependent_launch = false;
  add_parts(in_order, {of.operation, "sum"},
            {gathered, static_cast<int>(group_.shares.size()), count, static_cast<size_t>(hidden_),
             terms.x + at, terms.out + at, num_rows, hidden_});
}

void NcclSum::sum(const LaunchContext& gpu, const HalfOutput& of, const SumLaunch& launch, Turn) const {
  add_up(gpu, of, launch.first_row(), launch.num_rows());
}

void NcclSum::gather_logits(const LaunchContext& gpu, const OutputRange& outputs, Turn) const {
  const Nccl& nccl = *group_.nccl;
  nccl.check(nccl.group_start(), "sending logits");
  for (int row = 0; row < outputs.count; ++row)
    for (int r = 1; r < static_cast<int>(group_.shares.size()); ++r) {
      const IndexRange& columns = group_.shares[r].vocab;
      float* const first = work_.logits + size_t{1} * row * vocab_ + columns.first;
      if (rank_ == 0)
        nccl.check(nccl.receive(first, columns.count, NcclType::kFloat32, r, comm_, gpu.stream),
                   "sending logits", comm_);
      else if (rank_ == r)
        nccl.check(nccl.send(first, columns.count, NcclType::kFloat32, 0, comm_, gpu.stream),
                   "sending logits", comm_);
    }
  nccl.check(nccl.group_end(), "sending logits", comm_);
}

void NcclSum::broadcast(void* data, size_t bytes, cudaStream_t stream) const {
  group_.nccl->check(group_.nccl->broadcast(data, data, bytes, NcclType::kUint8, 0, comm_, stream),
                     "sending tokens", comm_);
}

void NcclSum::send_tokens(const LaunchContext& gpu, const OutputRange& outputs, Turn) const {
  if (group_.links) return;
  broadcast(work_.results + outputs.first, outputs.count * sizeof(SampleResult), gpu.stream);
}

void NcclSum::run_trial(const LaunchContext& gpu, std::span<const TrialSum> sums, Turn turn) const {
  for (const TrialSum& sum : sums) add_up(gpu, {Operation::kProject, sum.terms}, 0, sum.num_rows);
  // NCCL connects a pair of ranks at their first exchange, which would fail during graph capture. These
  // exchanges make the connections before any capture; their data is not used.
  gather_logits(gpu, {0, 1}, turn);
  broadcast(work_.results, sizeof(SampleResult), gpu.stream);
}

void NcclSum::check_alive() const {
  if (group_.links) group_.links->check_alive();
  int error = 0;
  group_.nccl->check(group_.nccl->comm_get_async_error(comm_, &error), "checking for errors", comm_);
  group_.nccl->check(error, "communicating with the other ranks", comm_);
}

void NcclSum::abort() {
  if (NcclComm* const comm = std::exchange(comm_, nullptr)) group_.nccl->comm_abort(comm);
}

}  // namespace nibble::cuda
