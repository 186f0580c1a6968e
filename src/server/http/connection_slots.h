// Connection slots. If all are taken, a new connection evicts the client that has been silent longest, so
// that idle or slow clients can't keep others out. I/O thread only.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <utility>

namespace nibble::server {

class ConnectionSlots {
 public:
  explicit ConnectionSlots(int max_taken) : max_taken_(max_taken) {}

  int num_taken() const { return num_taken_; }
  bool are_too_few() const { return num_taken_ > max_taken_; }

  // Evicts the connection whose client has been silent longest. Returns false if no client is silent.
  bool make_room();

  class Slot {  // one connection's slot; may outlive the server
   public:
    // `give_way` ends the connection; called at most once, while the connection waits.
    Slot(std::shared_ptr<ConnectionSlots> slots, std::function<void()> give_way);
    Slot(const Slot&) = delete;
    Slot& operator=(const Slot&) = delete;
    ~Slot();

    void wait();  // call before waiting for the client: the slot can be evicted from now on
    void work();  // call when bytes have arrived: the slot can't be evicted any more
    bool has_given_way() const { return has_given_way_; }

   private:
    friend class ConnectionSlots;
    std::shared_ptr<ConnectionSlots> slots_;
    std::function<void()> give_way_;
    // Holds the slot's entry while not in waiting_. splice() moves it without allocation, so it can't fail.
    std::list<Slot*> self_;
    std::list<Slot*>::iterator entry_;
    bool waits_{false}, has_given_way_{false};
  };

 private:
  int max_taken_;
  int num_taken_{0};
  std::list<Slot*> waiting_;  // longest wait first
};

}  // namespace nibble::server
