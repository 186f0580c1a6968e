// Connects the ranks of a model by direct writes to each other's memory, or by NCCL. Only this file chooses
// the implementation of RankSum (rank_sum.h).
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backend/backend.h"
#include "backend/cuda/cuda_options.h"
#include "backend/cuda/memory/workspace.h"
#include "backend/cuda/ranks/cards.h"
#include "backend/cuda/ranks/nccl.h"
#include "backend/cuda/ranks/rank_sum.h"
#include "model/shares/share.h"

namespace nibble::cuda {

struct Connection {
  std::shared_ptr<const Nccl> nccl{};  // null if ranks do not use NCCL
  std::vector<Share> shares{};         // one entry per rank
  std::shared_ptr<RankLinks> links{};  // set if each rank is a process; null if this process has all ranks

  bool has_processes() const { return links != nullptr; }
  // Returns whether a GPU can wait forever for a lost rank. If not, waits time out on the GPU.
  bool can_hang() const { return nccl != nullptr; }
  // Returns whether CUDA graphs may contain the ranks' exchanges. According to NCCL's documentation, several
  // GPUs of one process can deadlock if graphs contain NCCL's work.
  bool may_record() const { return !nccl || has_processes(); }
};

// Throws InputError if NCCL is needed and unavailable.
Connection connection_of(const Config& config, const BackendOptions& options, const CudaOptions& own,
                         std::string_view source, std::vector<int> devices);

struct LocalRank {  // a rank of this process
  int rank;
  size_t card;  // index of the rank's GPU in CardThreads
  const Workspace* work;
  Stream stream;
};
// Enables writes to other GPUs' memory, unless NCCL connects the ranks. Call it before ranks allocate memory.
void open_memory(const Connection& connection, std::span<const int> devices);
// Connects `ranks` with each other, and with the ranks of other processes. Returns a RankSum for each of
// `ranks`.
std::vector<std::unique_ptr<RankSum>> connect_ranks(const Connection& connection, const Config& config,
                                                    int max_batch_tokens, CardThreads& threads,
                                                    std::span<const LocalRank> ranks);
// Returns the error message for a trial (RankSum::run_trial()) with wrong sums.
std::string why_wrong(const Connection& connection, int num_ranks);
// Returns the kernels that sum an operation's results over the ranks, as entries of Backend::kernels(). `of`
// is the entry of the operation.
std::vector<KernelChoice> sum_choices(const Connection& connection, const KernelChoice& of, int num_ranks,
                                      bool have_own_sequences);

// Properties that must be equal in all processes of a group of ranks: `kernels` (chip and kernel options,
// which decide the bits of results) and the version of NCCL. rank_traits() throws InputError if this machine
// cannot be a rank.
struct RankTraits {
  std::string kernels, nccl;
};
RankTraits rank_traits(const CudaOptions& own);
// Returns an id by which ranks find each other. Rank 0's process calls new_group() and sends the id to the
// other processes.
GroupId new_group(const CudaOptions& own);

}  // namespace nibble::cuda
