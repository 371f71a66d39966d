//go:build !linux

// Command agent runs in a virtual machine with Linux only.
package main

func main() {}
