package service

import (
	"strings"

	incidentv1 "opsgate/proto/ops/incident/v1"
)

// The database stores an enum value as a lower-case word: the name of the value without its prefix.
const (
	statusPrefix = "INCIDENT_STATUS_"
	impactPrefix = "INCIDENT_IMPACT_"
	publicPrefix = "PUBLIC_STATUS_"
	resolved     = "resolved"
)

// storedStatus returns the stored word of a status, and whether the status is valid.
func storedStatus(status incidentv1.IncidentStatus) (word string, ok bool) {
	return storedWord(incidentv1.IncidentStatus_name, int32(status), statusPrefix)
}

// storedImpact returns the stored word of an impact, and whether the impact is valid.
func storedImpact(impact incidentv1.IncidentImpact) (word string, ok bool) {
	return storedWord(incidentv1.IncidentImpact_name, int32(impact), impactPrefix)
}

func storedWord(names map[int32]string, value int32, prefix string) (word string, ok bool) {
	name, ok := names[value]
	return strings.ToLower(strings.TrimPrefix(name, prefix)), ok && value != 0
}

func incidentStatus(word string) incidentv1.IncidentStatus {
	return incidentv1.IncidentStatus(incidentv1.IncidentStatus_value[statusPrefix+strings.ToUpper(word)])
}

func incidentImpact(word string) incidentv1.IncidentImpact {
	return incidentv1.IncidentImpact(incidentv1.IncidentImpact_value[impactPrefix+strings.ToUpper(word)])
}

func publicStatus(word string) incidentv1.PublicStatus {
	return incidentv1.PublicStatus(incidentv1.PublicStatus_value[publicPrefix+strings.ToUpper(word)])
}
