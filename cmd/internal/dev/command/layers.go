package command

import (
	"context"
	"errors"

	"golang.org/x/sync/errgroup"
)

// runLayers runs all layers. When ctx ends, the last layer ends, then the one before it, and so on:
// each layer serves those after it until they have ended. When a layer fails, those after it end.
func runLayers(ctx context.Context, layers ...func(context.Context) error) error {
	if len(layers) == 1 {
		return layers[0](ctx)
	}
	front, stopFront := context.WithCancel(ctx)
	defer stopFront()
	back, stopBack := context.WithCancel(context.WithoutCancel(ctx))
	defer stopBack()
	ended := make(chan error, 1)
	go func() {
		ended <- layers[0](back)
		stopFront()
	}()
	err := runLayers(front, layers[1:]...)
	stopBack()
	return errors.Join(err, <-ended)
}

// together returns a function that runs all functions, and ends them when its context ends or one
// of them fails.
func together(functions ...func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		group, ctx := errgroup.WithContext(ctx)
		for _, run := range functions {
			group.Go(func() error { return run(ctx) })
		}
		return group.Wait()
	}
}
