// Slots for connections. If all are taken, a new connection evicts the one whose client has been silent
// longest, so that idle or slow clients can't keep others out. Used on the I/O thread only.
#pragma once

#include <functional>
#include <list>
#include <memory>

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
    // `give_way` ends the connection. It is called at most once, while the connection waits for its client.
    Slot(std::shared_ptr<ConnectionSlots> slots, std::function<void()> give_way);
    Slot(const Slot&) = delete;
    Slot& operator=(const Slot&) = delete;
    ~Slot();

    void wait();  // call before waiting for the client: from then on the slot can be evicted
    void work();  // call when bytes have arrived: from then on the slot can't be evicted
    bool has_given_way() const { return has_given_way_; }

   private:
    friend class ConnectionSlots;
    std::shared_ptr<ConnectionSlots> slots_;
    std::function<void()> give_way_;
    // Holds the slot's list entry while ConnectionSlots::waiting_ does not. splice() moves the entry between
    // the two lists without allocating.
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
