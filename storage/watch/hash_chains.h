// HashChains: an intrusive hash table. Its elements are owned elsewhere and carry their own chain pointer, so an element
// costs one bucket (8 to 16 bytes) beyond itself; hundreds of thousands of idle watchers are what this is for.
//
// Pure. The order of iteration depends only on what was put in and when.
#pragma once

#include <cstddef>
#include <vector>

namespace rallypoint::watch {

/// `T` has hash() and a pointer `Next` that is the table's.
template <class T, T* T::*Next>
class HashChains {
 public:
  [[nodiscard]] size_t size() const { return size_; }
  [[nodiscard]] bool empty() const { return size_ == 0; }

  /// The first with that hash that `is` accepts; null = none.
  template <class Is>
  [[nodiscard]] T* find(size_t hash, Is&& is) const {
    if (size_ == 0) return nullptr;
    for (T* item = buckets_[hash & (buckets_.size() - 1)]; item != nullptr; item = item->*Next)
      if (item->hash() == hash && is(*item)) return item;
    return nullptr;
  }
  template <class Visit>
  void for_each(size_t hash, Visit&& visit) const {
    if (size_ == 0) return;
    for (T* item = buckets_[hash & (buckets_.size() - 1)]; item != nullptr; item = item->*Next)
      if (item->hash() == hash) visit(*item);
  }
  /// `visit` may take out (and destroy) the element that it is given, and no other.
  template <class Visit>
  void for_each(Visit&& visit) const {
    for (T* item : buckets_) {
      while (item != nullptr) {
        T* next = item->*Next;
        visit(*item);
        item = next;
      }
    }
  }
  void insert(T& item) {
    if (size_ >= buckets_.size()) grow();
    push(item);
    ++size_;
  }
  /// `item` is in the table.
  void erase(T& item) {
    T** place = &buckets_[item.hash() & (buckets_.size() - 1)];
    while (*place != &item) place = &((*place)->*Next);
    *place = item.*Next;
    --size_;
  }

 private:
  void push(T& item) {
    T*& first = buckets_[item.hash() & (buckets_.size() - 1)];
    item.*Next = first;
    first = &item;
  }
  void grow() {
    std::vector<T*> old(buckets_.empty() ? 1 : buckets_.size() * 2, nullptr);
    old.swap(buckets_);
    for (T* item : old) {
      while (item != nullptr) {
        T* next = item->*Next;
        push(*item);
        item = next;
      }
    }
  }

  std::vector<T*> buckets_;  ///< a power of two of them
  size_t size_ = 0;
};

}  // namespace rallypoint::watch
