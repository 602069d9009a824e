// The precompiled header needs a source to be compiled beside; it is otherwise empty.
