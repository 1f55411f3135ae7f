package conformance

import (
	"context"
	"fmt"
	"math"
	"slices"

	"opsgate/proto/contract"
	fleetv1 "opsgate/proto/ops/fleet/v1"
)

const listServerCommands = "fleet/ListServerCommands"

// historyChecks returns the checks of the command history, which has numbered pages.
func historyChecks() []Check {
	return []Check{
		{
			Name: listServerCommands + "/order", Needs: []Kind{Server}, run: commandsAreOrdered,
			Sentence: "Commands are ordered by creation, newest first.",
		},
		{
			Name: listServerCommands + "/page", Needs: []Kind{Server},
			Sentence: "INVALID_ARGUMENT naming `page` if it is out of bounds: from 1, and page × page_size below 2^31.",
			run: refuses(listServerCommands, "page", func(s *subject, _ Team) []invalidRequest {
				return []invalidRequest{
					{"page 0", s.commandsRequest(0, 20)},
					{"page -1", s.commandsRequest(-1, 20)},
					{"page 2147483647 of 100", s.commandsRequest(math.MaxInt32, contract.MaxPageSize)},
				}
			}),
		},
		{
			Name: listServerCommands + "/page-size", Needs: []Kind{Server},
			Sentence: "INVALID_ARGUMENT naming `page_size` if it is not 1 to 100.",
			run: refuses(listServerCommands, "page_size", func(s *subject, _ Team) []invalidRequest {
				return []invalidRequest{
					{"page size 0", s.commandsRequest(1, 0)},
					{"page size -1", s.commandsRequest(1, -1)},
					{"page size 101", s.commandsRequest(1, contract.MaxPageSize+1)},
				}
			}),
		},
		{
			Name: listServerCommands + "/all-violations", Needs: []Kind{Server}, run: bothBoundsAreNamed,
			Sentence: "INVALID_ARGUMENT carries a violation for each invalid field.",
		},
		{
			Name: listServerCommands + "/pages", Needs: []Kind{Server}, run: pagesMatchOneLargePage,
			Sentence: "ListServerCommands returns one page, and the total number of entries on all pages.",
		},
		{
			Name: listServerCommands + "/beyond", Needs: []Kind{Server}, run: pageBeyondIsEmpty,
			Sentence: "A page beyond the end is empty, with the true total.",
		},
	}
}

func (s *subject) commandsRequest(page, size int32) *fleetv1.ListServerCommandsRequest {
	own := s.teams[0]
	return &fleetv1.ListServerCommandsRequest{TeamId: own.ID, ServerId: own.Resources[Server], Page: page, PageSize: size}
}

func (s *subject) commands(ctx context.Context, page, size int32) (*fleetv1.ListServerCommandsResponse, error) {
	return s.fleet.ListServerCommands(ctx, s.commandsRequest(page, size))
}

func commandsAreOrdered(ctx context.Context, s *subject) error {
	response, err := s.commands(ctx, 1, contract.MaxPageSize)
	if err != nil {
		return err
	}
	return newestFirst(rows(response.GetCommands(), func(m *fleetv1.ServerCommand) row {
		return row{id: m.GetId(), at: timeOf(m.GetCreatedAt())}
	}))
}

func bothBoundsAreNamed(ctx context.Context, s *subject) error {
	_, err := s.fleet.ListServerCommands(ctx, s.commandsRequest(0, 0))
	return expectViolations(err, "page 0 and page size 0", "page", "page_size")
}

// pagesMatchOneLargePage compares small pages with a large one.
func pagesMatchOneLargePage(ctx context.Context, s *subject) error {
	return retryOnChange(ctx, func() ([]string, error) {
		response, err := s.commands(ctx, 1, contract.MaxPageSize)
		return messageIDs(response), err
	}, func(all []string) error {
		if len(all) < 2 {
			return skip("the server has fewer than two commands")
		}
		size := (len(all) + 2) / 3
		var walked []string
		for page := range int32(3) {
			response, err := s.commands(ctx, page+1, int32(size))
			if err != nil {
				return err
			}
			if n := int(response.GetTotal()); n < len(all) || len(all) < contract.MaxPageSize && n != len(all) {
				return expected(fmt.Sprintf("a total of %d", len(all)), "a total of %d", n)
			}
			walked = append(walked, messageIDs(response)...)
		}
		if walked = walked[:min(len(walked), len(all))]; !slices.Equal(walked, all) {
			return differentList(fmt.Sprintf("on three pages of %d, the rows of one page of 100", size), all, walked)
		}
		return nil
	})
}

func pageBeyondIsEmpty(ctx context.Context, s *subject) error {
	return retryOnChange(ctx, func() ([]string, error) {
		response, err := s.commands(ctx, 1, contract.MaxPageSize)
		return messageIDs(response), err
	}, func([]string) error {
		first, err := s.commands(ctx, 1, contract.MaxPageSize)
		if err != nil {
			return err
		}
		const far = 1_000_000
		beyond, err := s.commands(ctx, far, contract.MaxPageSize)
		if err != nil {
			return err
		}
		if len(beyond.GetCommands()) != 0 || beyond.GetTotal() != first.GetTotal() {
			return expected(fmt.Sprintf("0 commands and a total of %d", first.GetTotal()),
				"%d commands and a total of %d", len(beyond.GetCommands()), beyond.GetTotal())
		}
		return nil
	})
}
