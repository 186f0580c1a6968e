// Connects the ranks of a model by direct writes to each other's memory, or by NCCL. Only this file chooses
// which implementation of RankSum (rank_sum.h) is used.
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
  std::shared_ptr<const Nccl> nccl{};  // null: direct writes, or only one rank
  std::vector<Share> shares{};         // one entry per rank
  std::shared_ptr<RankLinks> links{};  // set if each rank is a process; null if all ranks are in this one

  bool has_processes() const { return links != nullptr; }
  // Whether a GPU's work can wait forever for a lost rank. If false, the wait times out on the GPU.
  bool can_hang() const { return nccl != nullptr; }
  // Whether CUDA graphs may contain exchanges. NCCL's documentation says that it can deadlock if several GPUs
  // of one process run NCCL's work in graphs.
  bool may_record() const { return !nccl || has_processes(); }
};

// Throws InputError if NCCL is needed and unavailable.
Connection connection_of(const Config& config, const BackendOptions& options, const CudaOptions& own,
                         std::string_view source, std::vector<int> devices);

struct LocalRank {  // a rank of this process
  int rank;
  size_t card;  // index of its GPU in the CardThreads
  const Workspace* work;
  Stream stream;
};
// Enables writes to other GPUs' memory, unless NCCL connects the ranks. Call it before ranks allocate memory.
void open_memory(const Connection& connection, std::span<const int> devices);
// Connects these ranks with each other and with the ranks of other processes. Returns the RankSum of each.
std::vector<std::unique_ptr<RankSum>> connect_ranks(const Connection& connection, const Config& config,
                                                    int max_batch_tokens, CardThreads& threads,
                                                    std::span<const LocalRank> ranks);
// Returns the error message for a trial (RankSum::run_trial()) that gave wrong sums.
std::string why_wrong(const Connection& connection, int num_ranks);
// Returns rows for the list of kernels, which describe the sum after an operation. `of`: the operation's row.
std::vector<KernelChoice> sum_choices(const Connection& connection, const KernelChoice& of, int num_ranks,
                                      bool have_own_sequences);

// Properties in which ranks of different processes must agree: the chip and the kernel options, which decide
// the bits, and the NCCL version. rank_traits() throws InputError if this machine cannot be a rank.
struct RankTraits {
  std::string kernels, nccl;
};
RankTraits rank_traits(const CudaOptions& own);
// Returns the id by which ranks find each other. The first rank's process makes it.
GroupId new_group(const CudaOptions& own);

}  // namespace nibble::cuda
