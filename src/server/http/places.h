// The places for connections. Where all are taken, the connection whose client has been silent for longest gives way to a new one, so
// that idle or slow clients can't keep others out. Only the I/O thread may use it.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <utility>

namespace nibble::server {

class Places {
 public:
  explicit Places(int max_taken) : max_taken_(max_taken) {}

  int num_taken() const { return num_taken_; }
  bool are_too_few() const { return num_taken_ > max_taken_; }

  // Ends the connection that has waited longest for its client. Returns false if none waits for a client.
  bool make_room();

  // The place of one connection. It may outlive the server that made the places.
  class Place {
   public:
    // `give_way` ends the connection; it is called at most once, and while the connection waits.
    Place(std::shared_ptr<Places> places, std::function<void()> give_way);
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;
    ~Place();

    void wait();  // the connection waits for its client from now on
    void work();  // the server works for it from now on
    bool has_given_way() const { return has_given_way_; }

   private:
    friend class Places;
    std::shared_ptr<Places> places_;
    std::function<void()> give_way_;
    std::list<Place*> self_;  // the entry of this place, while it is not in the list of those that wait
    std::list<Place*>::iterator entry_;
    bool waits_{false}, has_given_way_{false};
  };

 private:
  int max_taken_;
  int num_taken_{0};
  std::list<Place*> waiting_;  // the first has waited longest
};

}  // namespace nibble::server
